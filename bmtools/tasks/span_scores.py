"""Strict scores of entities: borders and type must all be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Mention = tuple[int, int, int, str]
_DIGITS = 6


@dataclass(frozen=True)
class SpanScore:
    """How many mentions were found, expected, and both; shares of nothing are 0."""

    correct: int
    found: int
    expected: int

    @property
    def precision(self) -> float:
        """Share of the found mentions that were expected."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the expected mentions that were found."""
        return self.correct / self.expected if self.expected else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.found + self.expected
        return 2 * self.correct / both if both else 0.0

    def line(self) -> dict[str, Any]:
        """What is printed, shares rounded."""
        return {"precision": round(self.precision, _DIGITS), "recall": round(self.recall, _DIGITS),
                "f1": round(self.f1, _DIGITS), "expected": self.expected, "found": self.found,
                "correct": self.correct}


def score_spans(expected: Iterable[Mention], found: Iterable[Mention]) -> SpanScore:
    """Count mentions by record, start, end and type; each distinct one once."""
    wanted, given = set(expected), set(found)
    return SpanScore(len(wanted & given), len(given), len(wanted))


def score_spans_by_type(expected: Iterable[Mention], found: Iterable[Mention]) -> dict[str,
                                                                                       SpanScore]:
    """Compare the mentions of each type, types in alphabetical order."""
    wanted, given = set(expected), set(found)
    kinds = sorted({mention[3] for mention in wanted | given})
    return {kind: score_spans((m for m in wanted if m[3] == kind),
                              (m for m in given if m[3] == kind))
            for kind in kinds}
