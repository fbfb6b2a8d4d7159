"""Confidence of projected spans: the probability that both of a span's edges are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path

import msgspec
import numpy as np

from bmtools.errors import DataError
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.projection.vote import Vote, overlap

SHIPPED = Path(__file__).with_name("confidence.json")
_PENALTY = 1.0
_LEAST = 0.01  # below which scores, and their distance from 1, do not differ
Features = dict[str, float]


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Logistic regression of whether a span is right.

    Args:
        origin: gold that it was fitted on.
        intercept: log-odds where all features are 0.
        weights: of the features.
        precisions: share of each method's own spans that are right; weights of the vote.
        spans: number of gold spans.
        error: expected calibration error, each set left out in turn; None for a single set.
    """

    origin: str
    intercept: float
    weights: dict[str, float]
    precisions: dict[str, float]
    spans: int
    error: float | None = None

    def confidence(self, features: Mapping[str, float]) -> float:
        """Return the probability that a span with these features is right."""
        odds = self.intercept + sum(self.weights.get(name, 0) * value
                                    for name, value in features.items())
        return 1 / (1 + exp(-max(-30, min(30, odds))))


def read_calibration(path: Path = SHIPPED) -> Calibration:
    """Read a calibration.

    Raises:
        DataError: the file holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path}: {error}; expected a calibration of projection") from error


def features(pair: SentencePair, number: int, found: Vote) -> Features:
    """Describe a projected span by what tells right ones from wrong ones.

    Args:
        pair: its sentences.
        number: of the span in the pair.
        found: its place, which there must be.

    Returns:
        log-odds of the scores of methods that chose the place; agreement and overlap of the others;
        how far its length is from the expected one; its size; whether rules changed it.
    """
    place = found.place
    assert place is not None
    others = [one for one in found.candidates.values() if one is not None]
    start, end = pair.spans[number]
    expected = (end - start) * len(pair.target) / max(1, len(pair.source))
    words = len(pair.source[start:end].split())
    same = [(name, one) for name, one in found.candidates.items()
            if one is not None and (one.start, one.end) == (place.start, place.end)]
    return {"agreeing": float(len(same) - 1),
            "against": float(len(others) - len(same)),
            "overlap": sum(overlap(place, one) for one in others) / len(others),
            "length": abs(log((place.end - place.start) / max(1.0, expected))),
            "words": log(1 + words), "short": float(words <= 1),
            "rules": float(bool(found.rules)),
            **{f"{name}": 1.0 for name, _ in same},
            **{f"{name} score": log((one.score + _LEAST) / (1 - one.score + _LEAST))
               for name, one in same}}


def fit_calibration(samples: Sequence[tuple[str, Features, bool]],
                    precisions: Mapping[str, float], origin: str) -> Calibration:
    """Fit a calibration to spans whose rightness is known.

    Args:
        samples: of spans, their set, their features, and whether each is right.
        precisions: of the methods.
        origin: of the gold, for people.
    """
    sets = sorted({name for name, *_ in samples})
    found = []
    for left_out in sets if len(sets) > 1 else ():
        model = _fit([one for one in samples if one[0] != left_out], precisions, origin)
        found += [(model.confidence(values), right) for name, values, right in samples
                  if name == left_out]
    fitted = _fit(samples, precisions, origin)
    return msgspec.structs.replace(
        fitted, error=round(calibration_error(found), 4) if found else None)


def _fit(samples: Sequence[tuple[str, Features, bool]], precisions: Mapping[str, float],
         origin: str) -> Calibration:
    """Fit the regression, with one right and one wrong span more, so that no odds are endless."""
    from sklearn.linear_model import LogisticRegression

    names = sorted({name for _, one, _ in samples for name in one})
    values = np.array([[one.get(name, 0.0) for name in names] for _, one, _ in samples])
    values = np.vstack([values, values.mean(axis=0), values.mean(axis=0)])
    right = np.array([*(good for *_, good in samples), True, False])
    model = LogisticRegression(C=1 / _PENALTY, max_iter=1000).fit(values, right)
    return Calibration(origin, round(float(model.intercept_[0]), 4),
                       {name: round(float(value), 4)
                        for name, value in zip(names, model.coef_[0], strict=True)},
                       {name: round(value, 4) for name, value in precisions.items()}, len(samples))


def calibration_error(found: Sequence[tuple[float, bool]]) -> float:
    """Return the expected calibration error over ten bins of equal width.

    Source: Guo et al. 2017, section 2.

    Args:
        found: confidence of spans, and whether each is right.
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in found:
        bins.setdefault(min(9, int(10 * confidence)), []).append((confidence, right))
    return sum(abs(sum(confidence for confidence, _ in own) - sum(right for _, right in own))
               for own in bins.values()) / len(found)


def encode_calibration(calibration: Calibration) -> bytes:
    """Return a calibration as JSON."""
    return msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n"
