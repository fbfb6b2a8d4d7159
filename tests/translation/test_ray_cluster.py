"""Translation on a Ray cluster of this machine, whose nodes are processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray_nodes import NODES, kill_a_node

from bmtools.errors import BmtoolsError
from bmtools.io import ray_cluster
from bmtools.translation.cluster import RayTranslator, _EngineWorker
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import RayConfig

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


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
def test_no_cluster_is_one_clear_line(
        address: str, run: Callable[..., Any], write_lines: Callable[..., Path],
        tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    (tmp_path / "memory.tsv").write_text("en\tit\nPain.\tDolore.\n")
    command = ("translate", write_lines("in.jsonl", {"id": "a", "text": "Pain."}),
               "--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory",
               tmp_path / "memory.tsv")
    outcome = run(*command, "--set", "ray_cores=2")
    assert outcome.code == 2
    assert "--set ray_cores: found 2, expected nothing without --ray" in outcome.err
    outcome = run(*command, "--ray", address)
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: --ray {address}: no cluster answers (")
    assert outcome.err.endswith("start one with: ray start --head; local starts one here\n")


class Cluster:
    """A cluster in this process: futures are functions, and some workers die."""

    def __init__(self, **nodes: dict[str, int]) -> None:
        self.exceptions = pytest.importorskip("ray.exceptions")
        self.resources = nodes
        self.options: list[dict[str, Any]] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name.encode().hex().ljust(56, "f"), "Alive": True,
                 "Resources": resources, "NodeManagerAddress": name}
                for name, resources in self.resources.items()]

    def remote(self, kind: Any) -> Any:
        def with_options(**options: Any) -> Any:
            self.options.append(options)
            node = options["scheduling_strategy"].node_id.rstrip("f")
            actor = kind(bytes.fromhex(node).decode())
            method = SimpleNamespace(remote=lambda part: [
                lambda: next(iter(actor.work(part)))])
            return SimpleNamespace(remote=lambda _pickled: SimpleNamespace(
                start=SimpleNamespace(remote=lambda: actor.start),
                work=SimpleNamespace(options=lambda **_options: method)))

        return SimpleNamespace(options=with_options)

    def wait(self, futures: list[Any], num_returns: int, timeout: float) -> Any:
        return futures, []

    def get(self, future: Callable[[], Any]) -> Any:
        try:
            return future()
        except ArithmeticError:
            raise self.exceptions.ActorDiedError from None

    def shutdown(self) -> None:
        self.resources = {}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RayTranslator]:
    def connected(cluster: Cluster, load: Callable[[str], Any], cores: int | None = None,
                  uses_gpu: bool = False) -> RayTranslator:
        class Actor(ray_cluster._Actor):
            def work(self, part: Any) -> Any:
                self._worker = self._worker or _EngineWorker(
                    partial(load, self._pickled))  # type: ignore[assignment, arg-type]
                return self._worker(part)  # type: ignore[misc]

        monkeypatch.setattr(ray_cluster, "connected", lambda _address: cluster)
        monkeypatch.setattr(ray_cluster, "_Actor", Actor)
        monkeypatch.setattr(ray_cluster, "_LOOK_SECONDS", 0.0)
        return RayTranslator(RayConfig("here", cores), lambda: None, uses_gpu)  # type: ignore

    return connected


class Engine(Translator):
    """Engine that dies of sentences with a certain word."""

    name, batch_sentences = "upper", 2

    def __init__(self, node: str = "", deaths: int = 0) -> None:
        self.fingerprint = f"upper {node}"
        self.details: dict[str, str] = {}
        self.own_counts = Counter[str]()
        self.deaths = [None] * deaths

    def translate(self, sentences: list[str], attempt: int = 0) -> list[Translation]:
        self.counts["restarts"] += 1
        if "death" in sentences and self.deaths:
            self.deaths.pop()
            raise ArithmeticError
        return [Translation(one.upper()) for one in sentences]


def test_batches_come_back_in_order_and_are_counted_when_they_do(
        connect: Callable[..., RayTranslator]) -> None:
    engine = Engine(deaths=2)
    translator = connect(Cluster(a={"CPU": 2}, b={"CPU": 2}), lambda _node: engine)
    assert (translator.name, translator.batch_sentences) == ("upper", 2)
    waits = [translator.submit(batch) for batch in (["a", "death"], ["b"], ["c"], ["d", "e"])]
    assert [[one.text for one in wait()] for wait in waits] == [
        ["A", "DEATH"], ["B"], ["C"], ["D", "E"]]
    assert translator.counts["lost_workers"] == 2
    assert translator.counts["restarts"] == 4
    assert [one.text for one in translator.translate(["f"])] == ["F"]


def test_a_batch_that_costs_every_worker_ends_the_run(
        connect: Callable[..., RayTranslator]) -> None:
    engine = Engine(deaths=100)
    translator = connect(Cluster(a={"CPU": 1}, b={"CPU": 1}), lambda _node: engine)
    with pytest.raises(BmtoolsError, match=r"4 workers were lost over the part that begins "
                       r".*'death'.*; they may lack memory"):
        translator.translate(["death"])


def test_another_engine_on_a_node_is_refused(connect: Callable[..., RayTranslator]) -> None:
    translator = connect(Cluster(a={"CPU": 1}, b={"CPU": 1}), Engine)
    with pytest.raises(BmtoolsError, match=r"a node has another engine \(fingerprint 'upper b', "
                       r"elsewhere 'upper a'\); install the same one"):
        for wait in [translator.submit(["a"]), translator.submit(["b"])]:
            wait()


def test_nodes_that_are_away(connect: Callable[..., RayTranslator],
                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_PATIENCE_SECONDS", -1.0)
    cluster = Cluster(a={"CPU": 2}, head={})
    with pytest.raises(BmtoolsError, match="ray here: no node with 4 cores has been there"):
        connect(cluster, lambda _node: Engine(), cores=4)
    assert cluster.resources == {}  # it has left


@pytest.mark.parametrize(("resources", "cores", "uses_gpu", "copies"), [
    ({"CPU": 8.0}, None, True, [(8, 0)]), ({"CPU": 8.0}, 3, False, [(3, 0)] * 2),
    ({"CPU": 8.0, "GPU": 2.0}, None, True, [(4, 1)] * 2),
    ({"CPU": 8.0, "GPU": 2.0}, None, False, [(8, 0)]),
    ({"CPU": 8.0, "GPU": 2.0}, 2, True, [(2, 1)] * 2)])
def test_copies_of_a_node(resources: dict[str, int], cores: int | None, uses_gpu: bool,
                          copies: list[tuple[int, int]],
                          connect: Callable[..., RayTranslator]) -> None:
    cluster = Cluster(a=resources)
    connect(cluster, lambda _node: Engine(), cores, uses_gpu)
    assert [(one["num_cpus"], one["num_gpus"]) for one in cluster.options] == copies
