"""Interface of the projection methods, which find spans of the source in its translation."""

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
        mentions: for each span the translation of its words on their own, or an empty string; an
            empty tuple without an engine.
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
        end: offset after its last character.
        score: score of the method, 0 to 1.
        is_corrected: whether rules corrected its edges.
        edge: how much better its outermost words are linked to the annotation than the words next
            to them outside, -1 to 1, at the worse end; None if the method has no links.
    """

    start: int
    end: int
    score: float
    is_corrected: bool = False
    edge: float | None = None


Places = list[list[Projection | None]]
"""Place of each span of each pair; None if the method does not find the span."""
