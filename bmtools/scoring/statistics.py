"""Statistics of scores: bootstrap intervals, comparisons of models, sampling errors.

A score here is a ratio of two sums over units: nats over tokens, reciprocal ranks over maskings.
A unit is a sentence, since measurements within one depend on each other. A unit whose denominator
is 0 does not count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np

from bmtools.scoring.lines import DIGITS
from bmtools.scoring.predictor import Predictor
from bmtools.scoring.settings import StatisticsConfig

Sums = tuple[np.ndarray, np.ndarray]
"""Numerators and denominators of a model, each (units,); denominators are 0 or more."""

Interval = tuple[float, float]

_NUMBERS_AT_ONCE = 1 << 18  # some megabytes, or one resample where it has more units
_RESAMPLING, _EXCHANGING = range(2)  # purposes, so that their draws differ under one seed
_WORD_BITS = 32
_ROUNDING = 1e-10  # of a ratio: far more than sums lose, far less than models differ by


class Difference(NamedTuple):
    """Difference of two models on the same units.

    Args:
        difference: first ratio less the second; not a number where one has no denominators.
        interval: of the difference, low and high; None where it is undefined.
        p_value: two-sided, of the hypothesis that the two models are exchangeable; None where it is
            undefined.
    """

    difference: float
    interval: Interval | None
    p_value: float | None


def interval(sums: Sequence[np.ndarray] | np.ndarray,
             settings: StatisticsConfig) -> Interval | None:
    """Bound a ratio of sums, or the difference of two, by the percentile bootstrap over units.

    Monotonic functions preserve it: the exponential of both bounds of nats per token is the
    interval of pseudo-perplexity. With fewer than some 20 units it is too narrow.

    Source: Efron and Tibshirani 1993, chapter 13; Koehn 2004, who resamples sentences.

    Args:
        sums: (2, units) numerators and denominators, or (4, units) of two models.
        settings: resamples and confidence.

    Returns:
        low and high; None without resamples, with fewer than two units, or where a sum is
        infinite.
    """
    columns = _counted(sums)
    varying = (np.count_nonzero(columns[1::2], axis=1) > 1).all() and np.isfinite(columns).all()
    if not settings.resamples or not varying:
        return None
    generator = np.random.default_rng((settings.seed, _RESAMPLING))
    units = columns.shape[1]
    resampled = np.empty((len(columns), settings.resamples))
    step = max(1, _NUMBERS_AT_ONCE // units)
    for start in range(0, settings.resamples, step):
        stop = min(start + step, settings.resamples)
        drawn = generator.integers(0, units, size=(stop - start, units))
        for column, total in zip(columns, resampled, strict=True):
            column.take(drawn).sum(axis=1, out=total[start:stop])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = resampled[::2] / resampled[1::2]
    values = ratios[0] - ratios[1:].sum(axis=0)
    defined = values[np.isfinite(values)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - settings.confidence) / 2, (1 + settings.confidence) / 2])
    return float(low), float(high)


def paired_difference(first: Sums, second: Sums, settings: StatisticsConfig) -> Difference:
    """Compare two models on the same units, pair by pair.

    The interval comes from resamples that are the same for both. The p-value comes from exchanges
    in which the two models' sums of a unit are swapped with probability one half. All 2^units
    exchanges are tried where that is fewer than the resamples. Where an exchange or a resample
    leaves a model without denominator, it does not count.

    Source: Koehn 2004 (paired bootstrap); Efron and Tibshirani 1993, chapter 15 (permutation
    test). They give the share of random exchanges; here the observed state counts as one more,
    so that the p-value is never 0 (Phipson and Smyth 2010).

    Returns:
        the difference; no interval and no p-value without resamples, with fewer than two units, or
        where a sum is infinite.
    """
    columns = _counted([*first, *second])
    with np.errstate(invalid="ignore"):
        totals = columns.sum(axis=1)
        difference = float(_ratio(*totals[:2]) - _ratio(*totals[2:]))
    bounds = interval(columns, settings)
    return Difference(difference, bounds, None if bounds is None else _p_value(columns, settings))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of several comparisons, so that their level is that of all together.

    Source: Holm 1979, as adjusted p-values.

    Returns:
        adjusted p-values in the order given, at most 1.
    """
    found = np.asarray(p_values, dtype=float)
    order = np.argsort(found, kind="stable")
    steps = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    adjusted = np.empty_like(found)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()


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
    """Sums of one predictor's scores.

    Attributes:
        predictor: gave the scores.
    """

    predictor: Predictor

    def add(self, score: Any) -> None:
        """Count a score."""

    def metrics(self) -> dict[str, RatioMetric]:
        """Return the metrics that models are compared by."""
        ...

    def line(self) -> dict[str, Any]:
        """Return the corpus-level scores."""
        ...


def compare_models(totals: Sequence[ModelTotals],
                   statistics: StatisticsConfig) -> list[dict[str, Any]]:
    """Compare each two models by each metric that both have, on sentences that both scored.

    Returns:
        lines: `compared`: the two models; `metric`; `difference`: the first one's score less the
        second one's, with its `interval`; `p`: of the paired permutation test; `p_holm`: adjusted
        for as many comparisons as there are by one metric (Holm 1979); `sentences`.
    """
    if not statistics.resamples:
        return []
    lines: list[dict[str, Any]] = []
    by_metric = defaultdict(list)
    for first, second in combinations(totals, 2):
        others = second.metrics()
        for name, one in first.metrics().items():
            other = others[name]
            both = (one.denominators > 0) & (other.denominators > 0)
            if one.vocabulary != other.vocabulary or not both.any():
                continue
            difference, bounds, p_value = paired_difference(
                (one.numerators[both], one.denominators[both]),
                (other.numerators[both], other.denominators[both]), statistics)
            lines.append({
                "compared": [first.predictor.name, second.predictor.name], "metric": name,
                "difference": round(difference, DIGITS),
                "interval": bounds and [round(bound, DIGITS) for bound in bounds],
                "p": p_value, "sentences": int(both.sum())})
            if p_value is not None:
                by_metric[name].append(lines[-1])
    for family in by_metric.values():
        for line, adjusted in zip(family, holm([line["p"] for line in family]), strict=True):
            line["p"], line["p_holm"] = round(line["p"], DIGITS), round(adjusted, DIGITS)
    return lines


@dataclass
class SamplingError:
    """Sampling error of a ratio over sampled items, from running sums."""

    _count: int = 0
    _sums: np.ndarray = field(default_factory=lambda: np.zeros(2))
    _products: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))

    def add(self, numerators: np.ndarray, denominators: np.ndarray) -> None:
        """Add sampled items, (items,) each; those with a denominator of 0 do not count."""
        columns = _counted([numerators, denominators])
        self._count += columns.shape[1]
        self._sums += columns.sum(axis=1)
        self._products += columns @ columns.T

    def half_width(self, share: float, confidence: float) -> float | None:
        """Estimate how far the ratio may be from that over all items: half an interval's width.

        Items are sampled independently of each other. By the normal approximation, linear in the
        residuals of the ratio, with the correction for a finite population.

        Source: Cochran 1977, chapter 6, whose share of the population is here the probability.

        Args:
            share: probability with which an item was sampled, more than 0 and at most 1.
            confidence: level of the interval.

        Returns:
            half the width, 0 where all items were sampled; None with fewer than two items, or
            where a sum is infinite.
        """
        if self._count < 2 or not np.isfinite(self._sums).all():
            return None
        total, size = self._sums
        weights = np.array([1.0, -total / size])
        residuals = max(float(weights @ self._products @ weights), 0.0)
        variance = (1 - share) * self._count / (self._count - 1) * residuals / size**2
        return NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)


def _counted(sums: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Stack numerators and denominators, (2 * models, units), of units that any model counts."""
    columns = np.array(sums, dtype=float)
    return columns[:, (columns[1::2] > 0).any(axis=0)]


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Divide; not a number where there is no denominator."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def _p_value(columns: np.ndarray, settings: StatisticsConfig) -> float:
    """Compute the share of exchanges whose models differ as much as the observed ones do.

    Args:
        columns: (4, units), the first model's numerators and denominators, then the second's.
    """
    first, second = columns[:2].sum(axis=1), columns[2:].sum(axis=1)
    swaps = (columns[2:] - columns[:2]).T
    size = max(_ratio(*np.abs(columns[:2]).sum(axis=1)), _ratio(*np.abs(columns[2:]).sum(axis=1)))
    least = abs(_ratio(*first) - _ratio(*second)) - _ROUNDING * size
    extreme = counted = 1
    for exchanged in _exchanges(columns.shape[1], settings):
        moved = exchanged @ swaps
        differences = _ratio(*(first + moved).T) - _ratio(*(second - moved).T)
        extreme += int(np.count_nonzero(np.abs(differences) >= least))
        counted += int(np.count_nonzero(np.isfinite(differences)))
    return extreme / counted


def _exchanges(units: int, settings: StatisticsConfig) -> Iterator[np.ndarray]:
    """Yield which units are swapped, (exchanges, units) of 0 and 1, some exchanges at a time.

    These are all exchanges but the observed one, or random ones.
    """
    step = max(1, _NUMBERS_AT_ONCE // units)
    if units < _WORD_BITS and 1 << units < settings.resamples:
        for start in range(1, 1 << units, step):
            numbers = np.arange(start, min(start + step, 1 << units))
            yield (numbers[:, None] >> np.arange(units) & 1).astype(float)
        return
    generator = np.random.default_rng((settings.seed, _EXCHANGING))
    words = -(-units // _WORD_BITS)
    for start in range(0, settings.resamples, step):
        size = min(step, settings.resamples - start), words
        drawn = generator.integers(0, 1 << _WORD_BITS, size=size, dtype=np.uint32)
        bits = np.unpackbits(drawn.astype("<u4").view(np.uint8), axis=1, count=units)
        yield bits.astype(float)
