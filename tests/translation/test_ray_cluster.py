"""Translation on a Ray cluster of this machine, whose nodes are processes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bmtools.translation.ray_cluster import RayTranslator

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own
NODES = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes, and a head that does no work; commands are connected to any of the three."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    one.nodes = [one.add_node(num_cpus=1) for _ in range(NODES)]
    yield one
    one.shutdown()


def test_a_lost_nodes_work_is_done_again_to_the_same_bytes(
        cluster: Any, run: Callable[..., Any], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    memory, source = tmp_path / "memory.tsv", tmp_path / "in.jsonl"
    sentences = [f"Sentence number {number}." for number in range(9000)]
    memory.write_text("en\tit\n" + "".join(f"{one}\tFrase {one[9:]}\n" for one in sentences))
    source.write_text("".join(
        json.dumps({"id": str(number), "text": " ".join(sentences[number:number + 6])}) + "\n"
        for number in range(0, 9000, 5)))
    command = ("translate", source, "--source-lang", "en", "--target-lang", "it", "--engine",
               "memory", "--memory", memory)
    import ray

    alone, together = tmp_path / "alone.jsonl", tmp_path / "together.jsonl"
    outcome = run(*command, "-o", alone)
    assert outcome.code == 0, outcome.err
    submit, begun = RayTranslator.submit, []

    def submitting(self: RayTranslator, sentences: Any) -> Any:
        while not begun and not all(worker.is_loaded for worker in self._workers):
            self._step()
        begun.append(len(self._workers))
        if len(begun) == 3:
            connected = ray._private.worker.global_worker.node.raylet_socket_name
            lost = next(node for node in cluster.nodes if node.raylet_socket_name != connected)
            cluster.remove_node(lost, allow_graceful=False)
        return submit(self, sentences)

    monkeypatch.setattr(RayTranslator, "submit", submitting)
    outcome = run(*command, "-o", together, "--ray", cluster.address)
    assert outcome.code == 0, outcome.err
    assert begun[0] == NODES and len(begun) == 5
    assert together.read_bytes() == alone.read_bytes()
    assert "1 workers of the Ray cluster were lost" in outcome.err
    assert outcome.out == ""


def test_a_failure_of_the_engine_names_the_node(
        cluster: Any, run: Callable[..., Any], write_lines: Callable[..., Path],
        tmp_path: Path) -> None:
    (tmp_path / "memory.tsv").write_text("en\tfr\tde\n")
    outcome = run("translate", write_lines("in.jsonl", {"id": "a", "text": "Pain."}),
                  "--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory",
                  tmp_path / "memory.tsv", "--ray", cluster.address)
    assert outcome.code == 1
    assert re.fullmatch(r"bmtools: .*memory.tsv:1: found 3 columns .* \(on node [\d.]+\)\n",
                        outcome.err)


def test_no_cluster_is_one_clear_line(
        run: Callable[..., Any], write_lines: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    (tmp_path / "memory.tsv").write_text("en\tit\nPain.\tDolore.\n")
    command = ("translate", write_lines("in.jsonl", {"id": "a", "text": "Pain."}),
               "--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory",
               tmp_path / "memory.tsv")
    outcome = run(*command, "--ray-cores", "2")
    assert outcome.code == 2
    assert "--ray-cores: found 2, expected nothing without --ray" in outcome.err
    outcome = run(*command, "--ray", "nowhere")
    assert outcome.code == 1
    assert outcome.err.startswith("bmtools: --ray nowhere: no cluster answers (")
    assert outcome.err.endswith("start one with: ray start --head; local starts one here\n")
