"""Sentences and their translations: each different one is translated once."""

from __future__ import annotations

from bmtools.translation.engines.engine import Translation, Translator

_CACHED_SENTENCES = 100_000


class SentenceTranslator:
    """Translator of different sentences, with those translated so far.

    Attributes:
        known: translations by sentence; `forget` drops the oldest.
    """

    def __init__(self, engine: Translator) -> None:
        self.engine = engine
        self.known: dict[str, Translation] = {}

    def translate(self, sentences: list[str]) -> None:
        """Translate sentences that are not known yet."""
        if sentences:
            self.known.update(zip(sentences, self.engine.translate(sentences), strict=True))

    def forget(self) -> None:
        """Keep the newest translations alone."""
        for sentence in list(self.known)[:-_CACHED_SENTENCES]:
            del self.known[sentence]
