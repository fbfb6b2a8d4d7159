"""Translation on a Ray cluster, whose nodes load copies of the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from bmtools.errors import BmtoolsError, setting
from bmtools.io.ray_cluster import RayPool
from bmtools.io.workers import in_this_setting
from bmtools.status import set_status
from bmtools.translation.engines.engine import FACTS, Translation, Translator
from bmtools.translation.settings import RayConfig

_Answer = tuple[dict[str, Any], list[Translation], Counter[str]]


class _EngineWorker:
    """An engine on a node; for each batch it returns its facts, the translations and counts."""

    def __init__(self, load: Callable[[], Translator]) -> None:
        self._engine = load()

    def __call__(self, sentences: Sequence[str]) -> Iterator[_Answer]:
        before = Counter(self._engine.counts)
        translations = self._engine.translate(sentences) if sentences else []
        yield ({name: getattr(self._engine, name) for name in FACTS}, translations,
               self._engine.counts - before)


class RayTranslator(Translator):
    """Translator that sends batches to copies of an engine on the nodes of a cluster.

    One copy translates a complete batch, so a single machine would make the same translations.

    Args:
        config: settings of the cluster.
        load: loads the engine; it is sent to the nodes, and the engine's files must have the same
            paths there.
        uses_gpu: whether the engine uses a GPU if there is one.

    Raises:
        BmtoolsError: no cluster answers, or no node can load the engine.
    """

    def __init__(self, config: RayConfig, load: Callable[[], Translator],
                 uses_gpu: bool = False) -> None:
        assert config.ray is not None
        self.own_counts = Counter[str]()
        self._facts: dict[str, Any] = {}
        self._pool = RayPool(config.ray, partial(_EngineWorker, in_this_setting(load)),
                             config.ray_cores, uses_gpu)
        try:
            set_status("loading the engine on the cluster")
            self.submit([])()
        except BaseException:
            self.close()
            raise
        vars(self).update(self._facts)

    @property
    def ahead(self) -> int:
        """Maximum number of batches that are translated at the same time."""
        return self._pool.ahead

    @property
    def counts(self) -> Counter[str]:
        """Counts of all copies, and the number of lost copies."""
        return self.own_counts + Counter(lost_workers=self._pool.losses)

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences; see `Translator`."""
        return self.submit(sentences)()

    def submit(self, sentences: Sequence[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        return partial(self._receive, self._pool.submit(sentences))

    def close(self) -> None:
        """Leave the cluster and end the copies of the engine."""
        self._pool.close()

    def _receive(self, answers: Iterator[_Answer]) -> list[Translation]:
        """Receive the translations of a batch.

        Raises:
            BmtoolsError: another engine made them.
        """
        [(facts, translations, counts)] = answers
        self._facts = self._facts or facts
        for name, value in self._facts.items():
            if facts[name] != value:
                raise BmtoolsError(f"{setting('ray')}: a node has another engine ({name} "
                                   f"{facts[name]!r}, elsewhere {value!r}); install the same one")
        self.own_counts += counts
        return translations
