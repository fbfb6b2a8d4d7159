"""Comparisons of models on the same sentences: differences, intervals and p-values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from bmtools.scoring.predictor import Predictor
from bmtools.scoring.settings import StatisticsConfig
from bmtools.scoring.statistics import holm, paired_difference

_DIGITS = 6


@dataclass(frozen=True, eq=False)
class RatioMetric:
    """A metric that is a ratio of sums, with the sums of each sentence.

    Args:
        numerators, denominators: (sentences,) float64.
        vocabulary: fingerprint of the vocabulary that the ratio depends on; models of other
            vocabularies cannot be compared by it. Empty where they can.
    """

    numerators: np.ndarray
    denominators: np.ndarray
    vocabulary: str = ""


class ModelTotals(Protocol):
    """Sums of one predictor's scores, by which models are compared."""

    predictor: Predictor

    def metrics(self) -> dict[str, RatioMetric]:
        """Return the metrics that models are compared by."""
        ...


def compare_models(totals: Sequence[ModelTotals],
                   statistics: StatisticsConfig) -> list[dict[str, Any]]:
    """Compare each two models by each metric that both have, on sentences that both scored.

    Returns:
        lines: `compared`: the two models; `metric`; `difference`: the first one's score less the
        second one's, with its `interval`; `p`: of the paired permutation test; `p_holm`: adjusted
        for as many comparisons as there are by one metric (Holm 1979); `sentences`.
    """
    if len(totals) < 2 or not statistics.resamples:
        return []
    lines = [line for first, second in combinations(totals, 2)
             for line in _compare_two(first, second, statistics)]
    by_metric = defaultdict(list)
    for line in lines:
        if line["p"] is not None:
            by_metric[line["metric"]].append(line)
    for family in by_metric.values():
        for line, adjusted in zip(family, holm([line["p"] for line in family]), strict=True):
            line["p"], line["p_holm"] = round(line["p"], _DIGITS), round(adjusted, _DIGITS)
    return lines


def _compare_two(first: ModelTotals, second: ModelTotals,
                 statistics: StatisticsConfig) -> Iterator[dict[str, Any]]:
    others = second.metrics()
    for name, one in first.metrics().items():
        other = others[name]
        both = (one.denominators > 0) & (other.denominators > 0)
        if one.vocabulary != other.vocabulary or not both.any():
            continue
        found = paired_difference((one.numerators[both], one.denominators[both]),
                                  (other.numerators[both], other.denominators[both]), statistics)
        yield {"compared": [first.predictor.name, second.predictor.name], "metric": name,
               "difference": round(found.difference, _DIGITS),
               "interval": found.interval and [round(bound, _DIGITS) for bound in found.interval],
               "p": found.p_value, "sentences": int(both.sum())}
