"""Correlation of scores with gold ones: Pearson's and Spearman's coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bmtools.statistics.correlation import pearson, spearman
from bmtools.tasks.metrics.counts import Scores, rounded


def score_correlation(gold: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Compute both coefficients; None where either side is constant."""
    weights = np.ones((1, len(gold)))
    values = {"pearson": pearson(gold, predicted, weights)[0],
              "spearman": spearman(gold, predicted, weights)[0]}
    return {**{name: None if np.isnan(value) else rounded(value)
               for name, value in values.items()}, "support": len(gold)}

