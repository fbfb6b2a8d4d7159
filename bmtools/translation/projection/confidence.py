"""Confidence of projected spans: the probability that both of a span's edges are right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bmtools.errors import DataError
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.projection.vote import Vote, overlap

SHIPPED = Path(__file__).with_name("confidence.json")
_PENALTY = 1.0
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
        scores of methods that chose the place; agreement and overlap of the others; how far its
        length is from the expected one; its size; the rules that changed it.
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
            **{f"{name} score": one.score for name, one in same}}


def fit_calibration(samples: Sequence[tuple[Features, bool]], precisions: Mapping[str, float],
                    origin: str) -> Calibration:
    """Fit a calibration to spans whose rightness is known.

    Args:
        samples: features of spans, and whether each is right.
        precisions: of the methods.
        origin: of the gold, for people.

    Raises:
        DataError: all of the spans are right, or none.
    """
    from sklearn.linear_model import LogisticRegression

    right = np.array([good for _, good in samples])
    if not 0 < right.sum() < len(right):
        raise DataError(f"{origin}: found {right.sum()} of {len(right)} spans projected right, "
                        "expected some right and some wrong ones to learn from")
    names = sorted({name for one, _ in samples for name in one})
    values = np.array([[one.get(name, 0.0) for name in names] for one, _ in samples])
    model = LogisticRegression(C=1 / _PENALTY, max_iter=1000).fit(values, right)
    return Calibration(origin, round(float(model.intercept_[0]), 4),
                       {name: round(float(value), 4)
                        for name, value in zip(names, model.coef_[0], strict=True)},
                       {name: round(value, 4) for name, value in precisions.items()}, len(samples))


def write_calibration(calibration: Calibration) -> str:
    """Return a calibration as JSON text."""
    content: dict[str, Any] = msgspec.to_builtins(calibration)
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
