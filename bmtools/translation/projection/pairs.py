"""Interface of the projection methods: sentence pairs in, places in the translation out."""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]
"""Start and end."""


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
    spans: tuple[Span, ...] = ()
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Projection:
    """Place of an annotation in the translation.

    Args:
        start: offset of its first character in the target.
        end: offset behind its last one.
        score: the method's own, 0 to 1.
        is_mended: whether rules corrected its edges.
        edge: how much better its outermost words are linked to the annotation than the words beyond
            them, -1 to 1, the worse of both ends; None if the method has no links.
    """

    start: int
    end: int
    score: float
    is_mended: bool = False
    edge: float | None = None


Places = list[list[Projection | None]]
"""Place of each span of each pair; None if a method finds none."""
