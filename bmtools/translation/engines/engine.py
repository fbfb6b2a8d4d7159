"""Interface of the translation engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Translation:
    """Translation of one sentence.

    Args:
        text: the sentence in the other language; nothing where there is a fault.
        unknown: words that the engine knows it left as they were.
        fault: why the sentence could not be translated, with the way out.
    """

    text: str
    unknown: int = 0
    fault: str = ""


class Translator(Protocol):
    """Engine that turns sentences into sentences, one for one and in order.

    Attributes:
        name: the engine, as the setting `engine` spells it.
        details: further facts about the origin of a translation.
        marks_unknown: the engine reports words that it does not know.
        batch_sentences: sentences that make a call worth its cost.
        restarts: times that the engine's program stood still and was started again.
    """

    name: str
    details: dict[str, str]
    marks_unknown: bool
    batch_sentences: int
    restarts: int

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters."""
        ...
