"""Precision, recall and F1 from counts."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from bmtools.records import JsonObject
from bmtools.statistics.lines import DIGITS

Scores = JsonObject


def divide(numerator: ArrayLike, denominator: ArrayLike) -> np.ndarray:
    """Divide element by element; 0 where the denominator is 0, as precision without predictions."""
    upper, lower = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(upper, lower, out=np.zeros(lower.shape), where=lower != 0)


def rounded(value: SupportsFloat) -> float:
    """Round a score for output."""
    return round(float(value), DIGITS)


def score_matches(correct: int, predicted: int, support: int) -> Scores:
    """Compute precision, recall and F1, rounded; each is 0 where it would divide by 0.

    Args:
        correct: predictions that equal a gold annotation.
        predicted: all predictions.
        support: all gold annotations.
    """
    return {"precision": rounded(divide(correct, predicted)),
            "recall": rounded(divide(correct, support)),
            "f1": rounded(divide(2 * correct, predicted + support)),
            "support": support, "predicted": predicted, "correct": correct}
