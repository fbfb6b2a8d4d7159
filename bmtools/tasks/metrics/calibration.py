"""Calibration of predictions: whether their scores are the share that is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bmtools.tasks.metrics.spans import Scores, rounded

BINS = 10
PRECISION = 0.95


def calibrate(scores: Sequence[object], correct: Sequence[bool]) -> Scores:
    """Compare scores of predictions, as probabilities, with the share of them that is right.

    Source: Guo et al. 2017, section 2: reliability diagram and expected calibration error, over
    bins of equal width.

    Args:
        scores: of each prediction; None, or a number that is no probability, for none.
        correct: whether it is right.

    Returns:
        nothing where any prediction lacks a score; else `calibration`: the `error`, mean `score`
        and `precision`; `kept`: the share of predictions that stay at a precision of 0.95, those
        with the highest scores, and `threshold`: their least score; `bins` that are not empty.
    """
    if not scores or not all(map(_is_probability, scores)):
        return {}
    values, right = np.array(scores, dtype=float), np.array(correct, dtype=float)
    bins = _bins(values, right)
    share, threshold = kept_at_precision(values, right)
    error = sum(one["predictions"] * abs(one["score"] - one["precision"]) for one in bins)
    return {"calibration": {
        "error": rounded(error / len(values)), "score": rounded(values.mean()),
        "precision": rounded(right.mean()), "kept": rounded(share),
        "threshold": None if threshold is None else rounded(threshold),
        "bins": [{name: rounded(value) if isinstance(value, float) else value
                  for name, value in one.items()} for one in bins]}}


def _is_probability(score: object) -> bool:
    return isinstance(score, int | float) and 0 <= score <= 1


def _bins(scores: np.ndarray, correct: np.ndarray) -> list[Scores]:
    """Average scores and correctness in bins of equal width; the last one includes 1."""
    numbers = np.minimum((scores * BINS).astype(int), BINS - 1)
    return [{"from": number / BINS, "predictions": int(own.sum()),
             "score": float(scores[own].mean()), "precision": float(correct[own].mean())}
            for number in range(BINS) if (own := numbers == number).any()]


def kept_at_precision(scores: np.ndarray, correct: np.ndarray,
                      precision: float = PRECISION) -> tuple[float, float | None]:
    """Find the least score from which on predictions have a precision.

    Returns:
        share of predictions with this score or more, and the score; 0 and None if none has.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, right = scores[order], correct[order].cumsum()
    counts = np.arange(1, len(ranked) + 1)
    # Equal scores stay or go together.
    possible = (right >= precision * counts) & np.append(ranked[1:] != ranked[:-1], True)
    if not possible.any():
        return 0.0, None
    last = int(np.flatnonzero(possible)[-1])
    return (last + 1) / len(ranked), float(ranked[last])
