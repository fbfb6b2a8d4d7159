"""Models held against each other on the same sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from bmtools.scoring.settings import StatisticsConfig
from bmtools.scoring.statistics import holm, paired_difference

_DIGITS = 6


@dataclass(frozen=True, eq=False)
class RatioMetric:
    """A ratio of sums, kept apart by sentence.

    Args:
        numerators, denominators: (sentences,) float64.
        vocabulary: what the ratio speaks of; models with other vocabularies cannot be compared by
            it. Empty where they can.
    """

    numerators: np.ndarray
    denominators: np.ndarray
    vocabulary: str = ""

    def at(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keep the sums of some sentences, (sentences,) bool."""
        return self.numerators[chosen], self.denominators[chosen]


class Comparable(Protocol):
    """A tally whose measures can be held against those of another one."""

    predictor: Any

    def measures(self) -> dict[str, RatioMetric]:
        """Give what models are compared by."""
        ...


def compare_models(tallies: Sequence[Comparable],
                   statistics: StatisticsConfig) -> list[dict[str, Any]]:
    """Compare each two models by each measure that both have, on sentences that both took.

    Returns:
        lines: `compared`: the two models; `difference`: the first one's score less the second
        one's, with its interval; `p`: of the paired permutation test; `p_holm`: the same for as
        many comparisons as there are by one measure (Holm 1979).
    """
    if len(tallies) < 2 or not statistics.resamples:
        return []
    lines = [line for first, second in combinations(tallies, 2)
             for line in _lines(first, second, statistics)]
    by_metric = defaultdict(list)
    for line in lines:
        by_metric[line["metric"]].append(line)
    for alike in by_metric.values():
        told = [line for line in alike if line["p"] is not None]
        for line, adjusted in zip(told, holm([line["p"] for line in told]), strict=True):
            line["p"], line["p_holm"] = round(line["p"], _DIGITS), round(adjusted, _DIGITS)
    return lines


def _lines(first: Comparable, second: Comparable,
           statistics: StatisticsConfig) -> Iterator[dict[str, Any]]:
    theirs = second.measures()
    for metric, measure in first.measures().items():
        other = theirs[metric]
        if measure.vocabulary != other.vocabulary:
            continue
        both = (measure.denominators > 0) & (other.denominators > 0)
        if not both.any():
            continue
        found = paired_difference(measure.at(both), other.at(both), statistics)
        yield {"compared": [first.predictor.name, second.predictor.name], "metric": metric,
               "difference": round(found.difference, _DIGITS),
               "interval": found.interval and [round(bound, _DIGITS) for bound in found.interval],
               "p": found.p_value, "sentences": int(both.sum())}
