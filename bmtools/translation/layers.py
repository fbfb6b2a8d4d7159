"""Layers around an engine, each of which is an engine again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bmtools.translation.engines.engine import Translation, Translator


class Layer:
    """Translator that adds something to another one; this much adds nothing.

    Args:
        engine: that translates.
        settings: of the layer, for the fingerprint.
    """

    def __init__(self, engine: Translator, settings: str) -> None:
        self.engine = engine
        self.own_counts: Counter[str] = Counter()
        self.name = engine.name
        self.details = engine.details
        self.licence = engine.licence
        self.fingerprint = f"{engine.fingerprint}, {type(self).__name__} {settings}"
        self.marks_unknown = engine.marks_unknown
        self.batch_sentences = engine.batch_sentences
        self.attempts = engine.attempts

    @property
    def counts(self) -> Counter[str]:
        return self.own_counts + self.engine.counts

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences; see `Translator`."""
        return self.engine.translate(sentences, attempt)
