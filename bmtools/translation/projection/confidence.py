"""Vote of several methods on the place of a span, and the confidence that the place is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import msgspec

from bmtools.errors import DataError
from bmtools.translation.projection.edges import CLAUSE, Sentence
from bmtools.translation.projection.pairs import Projection, SentencePair, Span

# Precisions of methods that a calibration does not contain, measured with Apertium from English to
# Italian; 0.7 is a guess for the other methods.
_MEASURED = {"dictionary": 0.8, "markers": 0.9}
_UNKNOWN = 0.7
Candidates = Mapping[str, Projection | None]
"""Place that each method found for a span."""
SHIPPED = Path(__file__).with_name("confidence.json")
_CONNECTIVE = 4  # words up to the comma of "However," or "In this study,"
_LEAST = 0.01  # smaller differences of a score from 0 or 1 hardly matter
WHOLE = "whole sentence"
"""Feature of spans that cover all words of their sentence."""
Features = dict[str, float]


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Logistic regression that predicts whether a span is right.

    Args:
        origin: names of the gold sets of the fit.
        intercept: log-odds if all features are 0.
        weights: weights of the features.
        precisions: share of each method's spans that are right, for weights in the vote.
        spans: number of gold spans.
        error: largest value of `errors`; None for a single set.
        errors: by set, the expected calibration error of a fit without the set, for spans that do
            not cover their sentence.
        whole: share of right spans among spans that cover their sentence. None without such spans,
            and in files of an earlier version, whose regression includes such spans.
    """

    origin: str
    intercept: float
    weights: dict[str, float]
    precisions: dict[str, float]
    spans: int
    error: float | None = None
    errors: dict[str, float] = {}
    whole: float | None = None

    def confidence(self, features: Mapping[str, float]) -> float:
        """Return the probability that a span with these features is right."""
        if self.whole is not None and features.get(WHOLE):
            return self.whole
        odds = self.intercept + sum(self.weights.get(name, 0) * value
                                    for name, value in features.items())
        return 1 / (1 + exp(-max(-30, min(30, odds))))


def read_calibration(path: Path = SHIPPED) -> Calibration:
    """Read a calibration.

    Raises:
        DataError: the file is not a calibration.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path}: {error}; expected a calibration by --fit-confidence") from error


def features(pair: SentencePair, number: int, found: Vote,
             languages: tuple[str, str] = ("", "")) -> Features:
    """Return features of a projected span that distinguish right spans from wrong ones.

    Args:
        pair: sentences of the span.
        number: number of the span in the pair.
        found: vote with a place.
        languages: ISO 639-1 codes of the sentences; empty if they are not known.

    Returns:
        values by feature: log-odds of the scores and edge links from methods that chose the place,
        agreement and overlap of other methods, difference from the expected length, size, and words
        before the span. Two features are 1 if rules changed the place or it covers the sentence.
    """
    place = found.place
    assert place is not None
    others = list(filter(None, found.candidates.values()))
    start, end = pair.spans[number]
    expected = (end - start) * len(pair.target) / max(1, len(pair.source))
    words = len(pair.source[start:end].split())
    same = [(name, one) for name, one in found.candidates.items()
            if one is not None and (one.start, one.end) == (place.start, place.end)]
    return {"agreeing": float(len(same) - 1),
            "against": float(len(others) - len(same)),
            "overlap": sum(overlap(place, one) for one in others) / len(others),
            "length": abs(log((place.end - place.start) / max(1.0, expected))),
            "words": log(1 + words), "short": float(words <= 1), "clause": float(words >= CLAUSE),
            "rules": float(place.is_corrected),
            WHOLE: float(not any(map(str.isalnum, pair.source[:start] + pair.source[end:]))),
            **_before(pair, (start, end), place, languages),
            **{f"{name} edge": _log_odds(one.edge) for name, one in found.candidates.items()
               if one is not None and one.edge is not None},
            **{f"{name}": 1.0 for name, _ in same},
            **{f"{name} score": _log_odds(one.score) for name, one in same}}


def _before(pair: SentencePair, span: Span, place: Projection,
            languages: tuple[str, str]) -> Features:
    """Return whether only one side has a function word before, and whether a connective is before.
    """
    source, target = (Sentence(text, language) for text, language in
                      zip((pair.source, pair.target), languages, strict=True))
    first, other = source.range_of(*span)[0], target.range_of(place.start, place.end)[0]
    return {"function word": float(source.is_function(first - 1) != target.is_function(other - 1)),
            "connective": float(0 < first <= _CONNECTIVE and source.words[first - 1] == ",")}


def _log_odds(share: float) -> float:
    share = max(0.0, min(1.0, share))
    return log((share + _LEAST) / (1 - share + _LEAST))


@dataclass(frozen=True)
class Vote:
    """The places that methods found for a span, and the place that they chose.

    Args:
        place: chosen place with its score; None if no method found a place.
        candidates: place that each method found, with corrected edges.
        is_decided: whether a person decided on the place.
    """

    place: Projection | None
    candidates: Candidates
    is_decided: bool = False


def vote(candidates: Candidates, precisions: Mapping[str, float]) -> Vote:
    """Choose the place with the most support.

    A method supports a place by the log-odds of its precision, times its candidate's score, times
    the overlap (F1 of characters) between candidate and place. Among equal places the first is
    chosen.

    Args:
        candidates: place that each method found.
        precisions: share of each method's spans that are right, if it is known.
    """
    found = {name: one for name, one in candidates.items() if one is not None}
    if not found:
        return Vote(None, candidates)
    known = {**dict.fromkeys(found, _UNKNOWN), **_MEASURED, **precisions}
    weights = {name: log(known[name] / (1 - known[name])) for name in found}
    return Vote(max(found.values(), key=lambda place: sum(
        weights[name] * one.score * overlap(place, one) for name, one in found.items())),
        candidates)


def overlap(one: Projection, other: Projection) -> float:
    """Return the overlap of two places as F1 of characters."""
    common = min(one.end, other.end) - max(one.start, other.start)
    return max(0.0, 2 * common / (one.end - one.start + other.end - other.start))
