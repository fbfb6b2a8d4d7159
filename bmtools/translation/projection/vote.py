"""Vote of several methods on the places of spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from bmtools.translation.projection.pairs import Projection

# Precisions of methods that a calibration does not know: measured with Apertium, English to
# Italian; 0.7 is a guess for the others.
_MEASURED = {"dictionary": 0.8, "markers": 0.9}
_UNKNOWN = 0.7
Candidates = Mapping[str, Projection | None]
"""What each method found for a span."""


@dataclass(frozen=True)
class Vote:
    """A span as methods see it, and the place that they chose.

    Args:
        place: with the score of the method that found it; None where no method found any.
        candidates: what each method found, edges corrected.
        rules: that corrected the edges of the place.
        is_decided: whether a person decided on the place.
    """

    place: Projection | None
    candidates: Candidates
    rules: tuple[str, ...] = ()
    is_decided: bool = False


def vote(candidates: Candidates, rules: Mapping[str, tuple[str, ...]],
         precisions: Mapping[str, float]) -> Vote:
    """Choose the place with the most support.

    A method supports a place by the log-odds of its precision, times the score that it gives its
    own candidate, times the overlap (F1 of characters) of both; of equal ones the first stays.

    Args:
        candidates: what each method found.
        rules: that corrected each candidate.
        precisions: share of each method's spans that are right, where it is known.
    """
    found = [(name, one) for name, one in candidates.items() if one is not None]
    if not found:
        return Vote(None, candidates)
    best, place = max(found, key=lambda pair: support(pair[1], candidates, precisions))
    return Vote(place, candidates, rules.get(best, ()))


def support(place: Projection, candidates: Candidates, precisions: Mapping[str, float]) -> float:
    """Sum up what methods give a place; see `vote`."""
    return sum(weight(name, precisions) * one.score * overlap(place, one)
               for name, one in candidates.items() if one is not None)


def weight(method: str, precisions: Mapping[str, float]) -> float:
    """Return the log-odds of a method's precision."""
    precision = precisions.get(method, _MEASURED.get(method, _UNKNOWN))
    return log(precision / (1 - precision))


def overlap(one: Projection, other: Projection) -> float:
    """Return the F1 of the characters of two places."""
    common = min(one.end, other.end) - max(one.start, other.start)
    return max(0.0, 2 * common / (one.end - one.start + other.end - other.start))


def by_span(found: Mapping[str, Sequence[Sequence[Projection | None]]],
            ) -> list[list[Candidates]]:
    """Turn what methods found into candidates: of each pair, of each span, by method."""
    return [[dict(zip(found, span, strict=True)) for span in zip(*pair, strict=True)]
            for pair in zip(*found.values(), strict=True)]
