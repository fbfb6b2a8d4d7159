"""Calibration, compared with results computed by hand and with a simple count."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bmtools.tasks.metrics.errors import calibrate, kept_at_precision


def test_bins_equal_a_hand_computed_example() -> None:
    """Scores around 0.25 with half of the predictions correct, and 0.95 and 1 with all correct."""
    found = calibrate([0.2, 0.3, 0.95, 1.0], [True, False, True, True])["calibration"]
    assert found["bins"] == [
        {"from": 0.2, "predictions": 1, "score": 0.2, "precision": 1.0},
        {"from": 0.3, "predictions": 1, "score": 0.3, "precision": 0.0},
        {"from": 0.9, "predictions": 2, "score": 0.975, "precision": 1.0}]
    assert found["error"] == pytest.approx((0.8 + 0.3 + 2 * 0.025) / 4)
    assert (found["score"], found["precision"]) == (0.6125, 0.75)
    assert (found["kept"], found["threshold"]) == (0.5, 0.95)


@pytest.mark.parametrize("scores", [[], [0.5, None], [0.5, "high"], [1.2, 0.1], [-0.1, 0.1],
                                    [float("nan"), 0.1]])
def test_only_probabilities_are_calibrated(scores: list[object]) -> None:
    assert calibrate(scores, [True] * len(scores)) == {}


def kept_by_counting(scores: list[float], right: list[bool], precision: float) -> float:
    """Return the largest share that any threshold keeps at the precision."""
    shares = [0.0]
    for threshold in scores:
        kept = [one for score, one in zip(scores, right, strict=True) if score >= threshold]
        if sum(kept) >= precision * len(kept):
            shares.append(len(kept) / len(scores))
    return max(shares)


def test_share_at_precision_equals_a_simple_count() -> None:
    rng = random.Random(2)
    for _ in range(200):
        size, precision = rng.randint(1, 30), rng.choice([0.5, 0.75, 0.95])
        scores = [rng.randint(0, 8) / 8 for _ in range(size)]
        right = [rng.random() < 0.4 + 0.6 * score for score in scores]
        share, threshold = kept_at_precision(np.array(scores), np.array(right, float), precision)
        assert share == kept_by_counting(scores, right, precision)
        if threshold is not None:
            assert sum(score >= threshold for score in scores) == share * size
