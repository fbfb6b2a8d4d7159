"""Translation on a Ray cluster: nodes load the engine, and a lost one's work is done again."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bmtools import __version__
from bmtools.errors import BmtoolsError, setting
from bmtools.io.failures import brief
from bmtools.io.parallel import in_this_setting
from bmtools.io.ray_cluster import connected
from bmtools.status import set_status
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import RayConfig

_BATCHES_AHEAD = 2  # for each worker, so that none waits for the driver
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 5.0
_MOST_LOSSES = 3
_FACTS = tuple(Translator.__annotations__)


class _EngineActor:
    """The engine on a node.

    Args:
        load: loads it.
    """

    def __init__(self, load: Callable[[], Translator]) -> None:
        self._load = load

    def load(self) -> Mapping[str, object]:
        """Load the engine, and describe it."""
        self._engine = self._load()
        return {"version": __version__, **{name: getattr(self._engine, name) for name in _FACTS}}

    def translate(self, sentences: Sequence[str]) -> tuple[list[Translation], Counter[str]]:
        """Translate a batch, and count what the engine did."""
        before = Counter(self._engine.counts)
        translations = self._engine.translate(sentences)
        return translations, self._engine.counts - before


@dataclass(eq=False)
class _Worker:
    """An actor, the name and address of its node, and the batches that it has."""

    actor: Any
    node_id: str
    node: str
    loading: object
    is_loaded: bool = False
    batches: list[_Batch] = field(default_factory=list)


@dataclass(eq=False)
class _Batch:
    """Sentences, and what became of them; how many workers were lost over them."""

    sentences: Sequence[str]
    pending: object = None
    answer: tuple[list[Translation], Counter[str]] | None = None
    losses: int = 0


class RayTranslator:
    """Translator whose batches are translated by copies of an engine on the nodes of a cluster.

    Each batch is translated whole by one copy, so translations are those of a single machine.
    Nodes that join take part. One copy has a node, or a GPU of it where the engine uses some.

    Args:
        config: of the cluster.
        load: loads the engine; sent to the nodes, where its files must have the same paths.
        uses_gpu: whether the engine takes a GPU where there is one.

    Raises:
        BmtoolsError: no cluster answers, or no node can load the engine.
    """

    name: str
    details: dict[str, str]
    licence: str
    fingerprint: str
    marks_unknown: bool
    batch_sentences: int
    attempts: int

    def __init__(self, config: RayConfig, load: Callable[[], Translator],
                 uses_gpu: bool = False) -> None:
        assert config.ray is not None
        self._config = config
        self._uses_gpu = uses_gpu
        self._facts: Mapping[str, object] = {}
        self._workers: list[_Worker] = []
        self._failures: Counter[str] = Counter()  # to load the engine, by node
        self._queue: deque[_Batch] = deque()
        self._looked = self._worked = time.monotonic()
        self.counts: Counter[str] = Counter()
        self._ray = connected(config.ray)
        self._actor = self._ray.remote(_EngineActor)
        self._load = in_this_setting(load)
        try:
            self._look_for_nodes()
            set_status(f"loading the engine on {len(self._workers)} workers")
            while not self._facts:
                self._step()
        except BaseException:
            self.close()
            raise
        for name in _FACTS:
            setattr(self, name, self._facts[name])

    @property
    def ahead(self) -> int:
        """Batches that can be under way at a time."""
        return _BATCHES_AHEAD * max(1, len(self._workers))

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences; see `Translator`."""
        return self.submit(sentences)()

    def submit(self, sentences: Sequence[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        batch = _Batch(sentences)
        self._queue.append(batch)
        self._assign()
        return partial(self._wait, batch)

    def close(self) -> None:
        """Leave the cluster; its copies of the engine end."""
        self._ray.shutdown()

    def _wait(self, batch: _Batch) -> list[Translation]:
        while batch.answer is None:
            self._step()
        translations, counts = batch.answer
        self.counts += counts
        return translations

    def _assign(self) -> None:
        """Give batches to the workers with the fewest."""
        while self._queue:
            free = [worker for worker in self._workers
                    if worker.is_loaded and len(worker.batches) < _BATCHES_AHEAD]
            if not free:
                return
            worker = min(free, key=lambda worker: len(worker.batches))
            batch = self._queue.popleft()
            batch.pending = worker.actor.translate.remote(batch.sentences)
            worker.batches.append(batch)

    def _step(self) -> None:
        """Wait until something comes back, for a moment."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look_for_nodes()
        pending: dict[object, tuple[_Worker, _Batch | None]] = {
            worker.loading: (worker, None) for worker in self._workers
                   if not worker.is_loaded}
        pending |= {batch.pending: (worker, batch) for worker in self._workers
                    for batch in worker.batches}
        if not self._workers:
            if time.monotonic() - self._worked > _PATIENCE_SECONDS:
                raise BmtoolsError(f"{setting('ray')} {self._config.ray}: no node with "
                                   f"{self._config.ray_cores or 1} cores has been there for "
                                   f"{_PATIENCE_SECONDS:.0f} seconds; add one, and go on with "
                                   f"{setting('resume')}")
            time.sleep(_LOOK_SECONDS / 10)
            return
        for done in self._ray.wait(list(pending), timeout=_LOOK_SECONDS)[0]:
            worker, batch = pending[done]
            if worker in self._workers:
                self._receive(worker, batch, done)
        self._assign()

    def _receive(self, worker: _Worker, batch: _Batch | None, done: object) -> None:
        """Take an answer, or give the batches of a lost worker to others.

        Raises:
            BmtoolsError: the engine's own.
        """
        try:
            answer = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, BmtoolsError):
                raise type(error.cause)(f"{error.cause} (on node {worker.node})") from error
            raise BmtoolsError(f"{setting('ray')}: node {worker.node} failed: "
                               f"{brief(error.cause)}") from error
        except self._ray.exceptions.RayError as error:
            self._lose(worker, brief(error))
            return
        self._worked = time.monotonic()
        if batch is None:
            self._check(worker, answer)
        else:
            batch.answer = answer
            worker.batches.remove(batch)

    def _lose(self, worker: _Worker, reason: str) -> None:
        """Queue a lost worker's batches again, before all others."""
        self._workers.remove(worker)
        for batch in reversed(worker.batches):
            batch.losses += 1
            if batch.losses > _MOST_LOSSES:
                raise BmtoolsError(f"{setting('ray')}: {batch.losses} workers were lost over the "
                                   f"batch that begins {batch.sentences[0][:40]!r} ({reason}); "
                                   "they may lack memory")
            self._queue.appendleft(batch)
        worker.batches = []
        if worker.is_loaded:
            self.counts["lost_workers"] += 1
            return
        self._failures[worker.node_id] += 1
        if not self._facts and not self._workers:
            raise BmtoolsError(f"{setting('ray')}: node {worker.node} cannot load the engine "
                               f"({reason}); bmtools and the engine's files must be on each node")

    def _check(self, worker: _Worker, facts: Mapping[str, object]) -> None:
        """Take a worker on whose engine is that of the others.

        Raises:
            BmtoolsError: it is another one.
        """
        self._facts = self._facts or facts
        other = [name for name, value in self._facts.items() if facts[name] != value]
        if other:
            raise BmtoolsError(
                f"{setting('ray')}: node {worker.node} has another engine ({other[0]} "
                f"{facts[other[0]]!r}, elsewhere {self._facts[other[0]]!r}); install the same one")
        worker.is_loaded = True

    def _look_for_nodes(self) -> None:
        """Start workers on nodes that have room for more."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._looked = time.monotonic()
        for node in self._ray.nodes():
            name, resources = node["NodeID"], node["Resources"]
            cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
            if not node["Alive"] or not cores or self._failures[name] > _MOST_LOSSES:
                continue
            copies = gpus if self._uses_gpu and gpus else cores // (self._config.ray_cores or cores)
            present = sum(worker.node_id == name for worker in self._workers)
            for _ in range(copies - present):
                actor = self._actor.options(
                    num_cpus=self._config.ray_cores or cores // copies,
                    num_gpus=int(self._uses_gpu and gpus > 0),
                    scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False),
                ).remote(self._load)
                self._workers.append(
                    _Worker(actor, name, node["NodeManagerAddress"], actor.load.remote()))
