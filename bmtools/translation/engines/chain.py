"""Engine behind a translation memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bmtools.io.provenance.licences import combine
from bmtools.translation.engines.engine import (
    NOTHING_NEW,
    Translation,
    Translator,
)
from bmtools.translation.layers import Layer


class MemoryFirst(Layer):
    """Translator that asks a memory, and an engine about the rest.

    Where a first attempt came from the memory, the second is the engine's first; where it came from
    the engine, the last attempt has nothing new.

    Args:
        memory: gives a fault for what it does not hold.
        engine: for those sentences.
    """

    def __init__(self, memory: Translator, engine: Translator) -> None:
        super().__init__(engine, memory.fingerprint)
        self._memory = memory
        self.details = {**engine.details, **memory.details}
        self.licence = combine(engine.licence, memory.licence)
        self.attempts += 1

    @property
    def counts(self) -> Counter[str]:
        return super().counts + self._memory.counts

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences by the memory, and what it lacks by the engine."""
        found = self._memory.translate(sentences, attempt)
        known = [number for number, one in enumerate(found) if not one.fault]
        unknown = [number for number, one in enumerate(found) if one.fault]
        if attempt:
            self._ask(found, sentences, known, attempt - 1)
        else:
            self.own_counts["memory"] += len(known)
        self._ask(found, sentences, unknown, attempt)
        return found

    def _ask(self, found: list[Translation], sentences: Sequence[str], numbers: list[int],
             attempt: int) -> None:
        """Put the engine's translations of some sentences in their places."""
        if attempt == self.engine.attempts:
            for number in numbers:
                found[number] = NOTHING_NEW
        elif numbers:
            translations = self.engine.translate([sentences[one] for one in numbers], attempt)
            for number, translation in zip(numbers, translations, strict=True):
                found[number] = translation
