"""Scores that are ratios of two sums: their intervals and comparisons.

The sums are nats over tokens or reciprocal ranks over maskings; a score may also be a product of
such ratios. Sums are drawn by unit: a sentence, since measurements within one depend on each other.
A unit whose denominators are 0 does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bmtools.statistics.resampling import (
    FEWEST_UNITS,
    Interval,
    exchange_p_values,
    percentile_interval,
    resamples,
)
from bmtools.statistics.settings import StatisticsConfig

Sums = Sequence[np.ndarray] | np.ndarray
"""A model's numerators and denominators in turn, (2 * ratios, units); the latter are 0 or more."""
_ROUNDING = 1e-10  # of a ratio: far more than sums lose, far less than models differ by


class Difference(NamedTuple):
    """Difference of two models on the same units.

    Args:
        difference: first score less the second; not a number where one has no denominators.
        interval: of the difference, low and high; None where it is undefined.
        p_value: two-sided, of the hypothesis that the two models are exchangeable; None where it is
            undefined.
    """

    difference: float
    interval: Interval | None
    p_value: float | None


def interval(models: Sequence[Sums], settings: StatisticsConfig) -> Interval | None:
    """Bound a score, or the difference of two, by the expanded percentile bootstrap over units.

    The percentiles are those that give a mean of normal values the width of its t interval. Losses
    and reciprocal ranks of ten sentences are skewed: of samples of ten the intervals of 95 % hold
    the truth in 84 to 92 % (plain percentiles in 81 to 88 %), of twenty in 88 to 94 %, of fifty in
    89 to 94 %. Monotonic functions preserve them: the exponential of both bounds of nats per token
    is the interval of pseudo-perplexity.

    Source: Hesterberg 2015, section 5.3; Koehn 2004, who resamples sentences.

    Args:
        models: sums of one model, or of two on the same units.
        settings: resamples and confidence.

    Returns:
        low and high; None without resamples, where a model counts fewer than `FEWEST_UNITS`, or
        where a sum is infinite.
    """
    columns = _counted(models)
    counted = np.count_nonzero(columns[1::2], axis=1).min()
    if not settings.resamples or counted < FEWEST_UNITS or not np.isfinite(columns).all():
        return None
    units = columns.shape[1]
    totals = np.concatenate([[column.take(drawn).sum(axis=1) for column in columns]
                             for drawn in resamples(units, settings)], axis=1)
    values = _difference(totals, len(models))
    defined = values[np.isfinite(values)]
    return percentile_interval(defined, units, settings.confidence) if len(defined) else None


def paired_difference(first: Sums, second: Sums, settings: StatisticsConfig) -> Difference:
    """Compare two models on the same units, pair by pair.

    The interval comes from resamples that are the same for both. The p-value comes from exchanges
    in which the two models' sums of a unit are swapped with probability one half. All 2^units
    exchanges are tried where that is fewer than the resamples, so that it is right for few units,
    too. Where an exchange or a resample leaves a model without denominator, it does not count.

    Source: Koehn 2004 (paired bootstrap); Efron and Tibshirani 1993, chapter 15 (permutation
    test). They give the share of random exchanges; here the observed state counts as one more,
    so that the p-value is never 0 (Phipson and Smyth 2010).

    Returns:
        the difference; no interval where `interval` gives none, and no p-value without resamples,
        where a model counts fewer than two units, or where a sum is infinite.
    """
    columns = _counted([first, second])
    with np.errstate(invalid="ignore"):
        difference = float(_difference(columns.sum(axis=1), 2))
    varying = np.count_nonzero(columns[1::2], axis=1).min() > 1 and np.isfinite(columns).all()
    return Difference(difference, interval([first, second], settings),
                      _p_value(columns, settings) if varying and settings.resamples else None)


@dataclass(frozen=True, eq=False)
class Metric:
    """A score over items: the one source of a line's score, its interval and comparisons.

    Args:
        sums: (2 * ratios, items) float64, numerators and denominators in turn; the score is the
            product of the ratios. An item whose denominators are all 0 does not count.
        units: (items,) key of the unit of each item; items of one are drawn together.
        basis: what else the score depends on, such as the fingerprint of a vocabulary; models of
            another one cannot be compared by it.
        items: what they are called in lines.
    """

    sums: np.ndarray
    units: np.ndarray
    basis: str = ""
    items: str = "sentences"

    @property
    def counted(self) -> np.ndarray:
        """Tell which items count, (items,) bool."""
        return np.asarray((self.sums[1::2] > 0).any(axis=0))

    @property
    def value(self) -> float:
        """Score of all items; not a number where none counts."""
        return float(_difference(self.sums.sum(axis=1), 1))

    def select(self, members: np.ndarray) -> Metric:
        """Keep some of the items, by their numbers or by whether they are kept."""
        return replace(self, sums=self.sums[:, members], units=self.units[members])

    def by_unit(self) -> np.ndarray:
        """Sum the items that count by unit, (2 * ratios, units), in an order that theirs does not
        change.
        """
        keys, numbers = np.unique(self.units[self.counted], return_inverse=True)
        return np.array([np.bincount(numbers, column, len(keys))
                         for column in self.sums[:, self.counted]])


def _counted(models: Sequence[Sums]) -> np.ndarray:
    """Stack the sums of models, (models * 2 * ratios, units), of units that any model counts."""
    columns = np.concatenate([np.asarray(sums, dtype=float) for sums in models])
    return columns[:, (columns[1::2] > 0).any(axis=0)]


def _difference(totals: np.ndarray, models: int) -> np.ndarray:
    """Compute a model's score from totals, or the first model's less the second one's.

    Args:
        totals: (models * 2 * ratios, ...).
        models: one or two.

    Returns:
        (...) scores; not a number where there is no denominator.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(totals[1::2] > 0, totals[::2] / totals[1::2], np.nan)
        first, *second = np.split(ratios, models)
        return np.asarray(first.prod(axis=0) - (second[0].prod(axis=0) if second else 0))


def _p_value(columns: np.ndarray, settings: StatisticsConfig) -> float:
    """Compute the share of exchanges whose models differ as much as the observed ones do.

    Args:
        columns: (4 * ratios, units), the first model's sums, then the second's.
    """
    first, second = np.split(columns, 2)
    swaps = (second - first).T
    totals = columns.sum(axis=1)
    size = max(_difference(np.abs(one).sum(axis=1), 1) for one in (first, second))
    least = float(np.abs(_difference(totals, 2)) - _ROUNDING * size)

    def differences(exchanged: np.ndarray) -> dict[str, np.ndarray]:
        moved = exchanged @ swaps
        return {"": _difference((totals + np.hstack([moved, -moved])).T, 2)}

    return exchange_p_values({"": least}, differences, columns.shape[1], settings)[""]
