"""Interface of the projection methods: sentence pairs in, places in the translation out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SentencePair:
    """A sentence, its translation, and the annotated spans of the sentence.

    Args:
        source: the sentence.
        target: its translation.
        spans: start and end of each annotation in the source.
        mentions: translations of the annotated words by themselves, one for each span and empty
            where there is none; nothing at all where no engine was asked.
    """

    source: str
    target: str
    spans: tuple[tuple[int, int], ...] = ()
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Projection:
    """Place of an annotation in the translation.

    Args:
        start: offset of its first character in the target.
        end: offset behind its last one.
        score: the method's own, 0 to 1.
    """

    start: int
    end: int
    score: float


class Projector(ABC):
    """Method that finds annotated spans again in translations.

    Attributes:
        name: as the setting `method` spells it.
    """

    name: str

    def fit(self, pairs: Sequence[SentencePair]) -> None:  # noqa: B027, few learn
        """Train on the corpus at hand, with or without spans; by default there is nothing to do."""

    @abstractmethod
    def project(self, pairs: Sequence[SentencePair]) -> list[list[Projection | None]]:
        """Find each span of each pair; None where a method finds no place."""
