"""Translation on a Ray cluster on this machine, with processes as nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray_nodes import NODES, kill_a_node

from bmtools.errors import BmtoolsError
from bmtools.translation import cluster as cluster_module
from bmtools.translation.cluster import RayTranslator, _EngineWorker
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import RayConfig

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


def test_work_of_a_lost_node_is_repeated_with_the_same_bytes(
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

    alone, together = tmp_path / "alone.jsonl", tmp_path / "together.jsonl"
    outcome = run(*command, "-o", alone)
    assert outcome.code == 0, outcome.err
    submit, begun = RayTranslator.submit, []

    def submitting(self: RayTranslator, sentences: Any) -> Any:
        while len(self._pool._ready()) < NODES and len(begun) < 3:
            pass
        begun.append(len(sentences))
        result = submit(self, sentences)
        if len(begun) == 4:
            kill_a_node(cluster)
        return result

    monkeypatch.setattr(RayTranslator, "submit", submitting)
    outcome = run(*command, "-o", together, "--ray", cluster.address)
    assert outcome.code == 0, outcome.err
    assert len(begun) == 6
    assert together.read_bytes() == alone.read_bytes()
    assert "1 worker of the Ray cluster lost" in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_missing_cluster_is_a_one_line_error(
        address: str, run: Callable[..., Any], write_lines: Callable[..., Path],
        tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    (tmp_path / "memory.tsv").write_text("en\tit\nPain.\tDolore.\n")
    command = ("translate", write_lines("in.jsonl", {"id": "a", "text": "Pain."}),
               "--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory",
               tmp_path / "memory.tsv")
    outcome = run(*command, "--set", "ray_cores=2")
    assert outcome.code == 2
    assert "--set ray_cores: found 2, expected --ray as well" in outcome.err
    outcome = run(*command, "--ray", address)
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: --ray {address}: no cluster answers (")
    assert outcome.err.endswith("start one with: ray start --head; or use local\n")


class Engine(Translator):
    """Engine on a node that writes capitals."""

    name, batch_sentences = "upper", 2

    def __init__(self, node: str) -> None:
        self.fingerprint = f"upper {node}"
        self.details: dict[str, str] = {}
        self.own_counts = Counter[str]()

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        self.counts["restarts"] += 1
        return [Translation(one.upper()) for one in sentences]


def connected(monkeypatch: pytest.MonkeyPatch, *nodes: str) -> RayTranslator:
    """Connect to a cluster in this process with nodes that take turns."""
    workers = cycle(_EngineWorker(partial(Engine, node)) for node in nodes)
    pool = SimpleNamespace(submit=lambda batch: next(workers)(batch), losses=2)
    monkeypatch.setattr(cluster_module, "RayPool", lambda *_: pool)
    return RayTranslator(RayConfig("here"), lambda: None)  # type: ignore[arg-type, return-value]


def test_batches_keep_their_order_and_are_counted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    translator = connected(monkeypatch, "a", "a")
    assert (translator.name, translator.batch_sentences) == ("upper", 2)
    waits = [translator.submit(batch) for batch in (["a", "b"], ["c"])]
    assert [[one.text for one in wait()] for wait in waits] == [["A", "B"], ["C"]]
    assert translator.counts == {"lost_workers": 2, "restarts": 2}


def test_another_engine_on_a_node_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = connected(monkeypatch, "a", "b")
    with pytest.raises(BmtoolsError, match=r"a node has another engine \(fingerprint 'upper b', "
                       r"elsewhere 'upper a'\); install the same one"):
        translator.translate(["b"])
