"""What every translator offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Translation:
    """What became of one sentence.

    Args:
        text: the sentence in the other language; nothing where there is a fault.
        unknown: words that the engine knows it left as they were.
        fault: why the sentence could not be translated, with the way out.
    """

    text: str
    unknown: int = 0
    fault: str = ""


class Translator(Protocol):
    """Turns sentences into sentences, one for one and in order.

    Attributes:
        name: the engine, as `--engine` spells it.
        details: what else tells where a translation comes from.
        marks_unknown: True where the engine tells which words it does not know.
        batch_sentences: how many sentences make a call worth its cost.
    """

    name: str
    details: dict[str, str]
    marks_unknown: bool
    batch_sentences: int

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters."""
        ...
