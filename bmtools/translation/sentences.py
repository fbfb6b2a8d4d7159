"""Translator of sentences: an engine, and what is done about translations that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bmtools.translation.engines.engine import Translation, Translator


class SentenceTranslator:
    """Translator of batches of sentences to what is final, and is cached as such.

    A batch's translations depend on the batch alone, so that it may be translated anywhere.

    Attributes:
        engine: that translates.
        ahead: batches that can be under way at a time, beside the one that is waited for.
    """

    ahead = 0

    def __init__(self, engine: Translator) -> None:
        self.engine = engine

    @property
    def fingerprint(self) -> str:
        """Text that differs wherever translations might."""
        return self.engine.fingerprint

    def translate(self, sentences: list[str]) -> list[Translation]:
        """Translate a batch of different sentences."""
        return self.engine.translate(sentences)

    def submit(self, sentences: list[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        return partial(self.translate, sentences)
