"""Intervals and comparisons of any metric, by resampling documents or other units.

In this module, a document is the unit that is resampled as a whole. A sample contains the counts of
each document, so that the metrics can be computed for any weights of documents. A resample
contains some documents several times. An exchange takes some documents from another model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bmtools.statistics.resampling import (
    FEWEST_UNITS,
    Interval,
    Values,
    exchange_p_values,
    percentile_interval,
    resamples,
)
from bmtools.statistics.settings import StatisticsConfig

_RELATIVE_ERROR = 1e-13  # smaller shares of variance in the squares are rounding

Measure = Callable[[np.ndarray], Values]
"""Computes metrics from totals of counts, (draws, ...)."""
Exchange = Callable[[np.ndarray], tuple[Values, Values]]
"""Computes the metrics of both samples from (draws, documents), 1 for exchanged documents."""
_ROUNDING = 1e-10  # margin above rounding and far below real differences


@dataclass(eq=False)
class Sample:
    """A model's results: counts of each document, and metrics that are functions of their totals.

    Args:
        counts: (documents, ...) 0 or more; a document with only zeros does not count.
        measure: computes the metrics from totals, (draws, ...).
    """

    counts: np.ndarray
    measure: Measure

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.counts)

    def measure_weighted(self, weights: np.ndarray) -> Values:
        """Compute the metrics of documents weighted by (draws, documents) weights."""
        return self.measure(np.tensordot(weights, self.counts, 1))

    def exchange(self, other: Sample) -> Exchange:
        """Return the function that computes the metrics of two samples after exchanges."""
        own, others = self.counts.sum(axis=0), other.counts.sum(axis=0)
        changes = other.counts - self.counts

        def measure(weights: np.ndarray) -> tuple[Values, Values]:
            moved = np.tensordot(weights, changes, 1)
            return self.measure(own + moved), other.measure(others - moved)

        return measure

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of all documents."""
        return {name: float(value) for name, [value] in
                self.measure_weighted(np.ones((1, self.documents))).items()}


class PairSample(Sample):
    """Gold and predicted scores of items, and their correlation; counts are numbers of items.

    Args:
        gold: (items,).
        predicted: (items,).
        owners: (items,) document of each item.
        documents: number of documents.
    """

    def __init__(self, gold: np.ndarray, predicted: np.ndarray, owners: np.ndarray,
                 documents: int) -> None:
        super().__init__(np.bincount(owners, minlength=documents)[:, None, None],
                         lambda totals: {})
        self.items = gold, predicted, owners

    def measure_weighted(self, weights: np.ndarray) -> Values:
        gold, predicted, owners = self.items
        return {"pearson": pearson(gold, predicted, weights[:, owners]),
                "spearman": spearman(gold, predicted, weights[:, owners])}

    def exchange(self, other: Sample) -> Exchange:
        """Return the function that computes the metrics of two samples after exchanges."""
        assert isinstance(other, PairSample)
        gold, predicted, owners = (np.concatenate(both) for both in zip(
            self.items, other.items, strict=True))
        owners[len(self.items[2]):] += self.documents
        joined = PairSample(gold, predicted, owners, self.documents + other.documents)
        return lambda weights: (joined.measure_weighted(np.hstack([1 - weights, weights])),
                                joined.measure_weighted(np.hstack([weights, 1 - weights])))


class Estimate(NamedTuple):
    """A model's metric, or the difference of two models on the same documents.

    Args:
        value: mean over seeds; NaN if the metric is undefined.
        interval: interval over documents, for these seeds; None if undefined.
        error: standard error over documents; None if undefined.
        p_value: two-sided p-value of a difference, from the paired permutation test over documents;
            None if undefined.
    """

    value: float
    interval: Interval | None = None
    error: float | None = None
    p_value: float | None = None


def estimate_metrics(seeds: Sequence[Sample], settings: StatisticsConfig) -> dict[str, Estimate]:
    """Estimate each metric's mean over seeds, with the bootstrap over documents.

    The percentiles are chosen so that for normal values the interval of a mean is as wide as its t
    interval.

    Source: Hesterberg 2015, section 5.3; Koehn 2004, who resamples sentences.

    Args:
        seeds: a model's results for each seed, on the same documents; one without seeds.
        settings: resamples and confidence.

    Returns:
        estimates by metric; without an interval if there are no resamples, or fewer than
        `FEWEST_UNITS` documents that count.
    """
    return _estimate([seeds], settings)


def compare_samples(first: Sequence[Sample], second: Sequence[Sample],
                    settings: StatisticsConfig, comparisons: int = 1) -> dict[str, Estimate]:
    """Estimate the difference of two models by each metric's mean over seeds.

    The interval comes from resamples of documents that are the same for both models. The p-value
    comes from exchanges: with probability one half, the two models' results for a document are
    swapped. If there are fewer than `resamples` exchanges (2^documents), all of them are used, so
    that the p-value is also correct for few documents. Exchanges that leave a metric undefined do
    not count.

    Source: Koehn 2004 (paired bootstrap); Efron and Tibshirani 1993, chapter 15 (permutation
    test). They use the share of random exchanges; here the observed state counts as one more
    exchange, so that the p-value is above 0 (Phipson and Smyth 2010).

    The models' n-th seeds are exchanged with each other. If one model has more seeds, each seed of
    one model is exchanged with each seed of the other, so that all seeds of a model have the same
    weight. For a metric that is a mean over documents, this exchanges each document's mean over
    seeds. It tests documents for these seeds; `seeds.p_over_seeds` tests seeds.

    Args:
        first: a model's results for each seed.
        second: another model's results, on the same documents.
        settings: resamples and confidence.
        comparisons: number of p-values that are corrected together, see `for_comparisons`.
    """
    p_values = _p_values(first, second, settings.for_comparisons(comparisons))
    return {name: one._replace(p_value=p_values.get(name))
            for name, one in _estimate([first, second], settings).items()}


def _estimate(models: Sequence[Sequence[Sample]],
              settings: StatisticsConfig) -> dict[str, Estimate]:
    [counted] = np.nonzero(_counted(models))
    documents = models[0][0].documents
    estimates = {name: Estimate(float(value)) for name, [value] in
                 _difference(models, np.ones((1, documents))).items()}
    if not settings.resamples or len(counted) < FEWEST_UNITS:
        return estimates
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    for drawn in resamples(len(counted), settings):
        numbers = counted[drawn] + documents * np.arange(len(drawn))[:, None]
        weights = np.bincount(numbers.ravel(), minlength=documents * len(drawn)).reshape(
            -1, documents).astype(float)
        for name, values in _difference(models, weights).items():
            parts[name].append(values[np.isfinite(values)])
    for name, found in parts.items():
        defined = np.concatenate(found)
        if len(defined) > 1:
            # The variance of resamples divides by n instead of n - 1.
            error = math.sqrt(len(counted) / (len(counted) - 1)) * float(defined.std())
            estimates[name] = estimates[name]._replace(error=error, interval=percentile_interval(
                defined, len(counted), settings.confidence))
    return estimates


def _counted(models: Sequence[Sequence[Sample]]) -> np.ndarray:
    """Return which documents count for any seed of any model."""
    return np.asarray(np.any([seed.counts.any(axis=tuple(range(1, seed.counts.ndim)))
                              for seeds in models for seed in seeds], axis=0))


def _difference(models: Sequence[Sequence[Sample]], weights: np.ndarray) -> Values:
    """Compute a model's mean over seeds, or the difference of the first and second model."""
    first, *second = (_mean(seeds, weights) for seeds in models)
    return {name: values - second[0][name] if second else values
            for name, values in first.items()}


def _mean(seeds: Sequence[Sample], weights: np.ndarray) -> Values:
    return _average([seed.measure_weighted(weights) for seed in seeds])


def _average(found: Sequence[Values]) -> Values:
    return {name: np.mean([values[name] for values in found], axis=0) for name in found[0]}


def _p_values(first: Sequence[Sample], second: Sequence[Sample],
              settings: StatisticsConfig) -> dict[str, float]:
    """Compute the share of exchanges in which models differ by at least the observed difference."""
    [units] = np.nonzero(_counted([first, second]))
    if not settings.resamples or len(units) < 2:
        return {}
    pairs = zip(first, second, strict=True) if len(first) == len(second) \
        else product(first, second)
    exchanges = [one.exchange(other) for one, other in pairs]
    documents = first[0].documents

    def differences(exchanged: np.ndarray) -> Values:
        weights = np.zeros((len(exchanged), documents))
        weights[:, units] = exchanged
        left, right = map(_average, zip(*(measure(weights) for measure in exchanges), strict=True))
        return {name: values - right[name] for name, values in left.items()}

    sizes = [_mean(seeds, np.ones((1, documents))) for seeds in (first, second)]
    least = {name: abs(float(value - sizes[1][name][0])) - _ROUNDING * max(
        1.0, abs(value), abs(sizes[1][name][0])) for name, [value] in sizes[0].items()}
    return exchange_p_values({name: value for name, value in least.items() if np.isfinite(value)},
                             differences, len(units), settings)


def pearson(gold: ArrayLike, predicted: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Compute Pearson's r of weighted items, one value per row of weights.

    Args:
        gold: (items,) or (draws, items).
        predicted: (items,) or (draws, items).
        weights: (draws, items), 0 or more, such as the count of an item in a resample.

    Returns:
        (draws,); NaN if a side is constant or there are no items.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=1, keepdims=True)
        sides = [np.broadcast_to(np.asarray(side, float), weights.shape)
                 for side in (gold, predicted)]
        first, second = (side - (weights * side).sum(axis=1, keepdims=True) / total
                         for side in sides)
        squares = [(weights * side**2).sum(axis=1) for side in (first, second)]
        r = (weights * first * second).sum(axis=1) / np.sqrt(squares[0] * squares[1])
        constant = np.any([square <= _RELATIVE_ERROR * (weights * side**2).sum(axis=1)
                           for square, side in zip(squares, sides, strict=True)], axis=0)
        return np.where(constant, np.nan, np.clip(r, -1, 1))


def spearman(gold: ArrayLike, predicted: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of weighted items: Pearson's r of their ranks, ties at their mean.

    Args:
        gold: (items,).
        predicted: (items,).
        weights: (draws, items) whole numbers; an item with weight 2 counts as two.
    """
    return pearson(_ranks(gold, weights), _ranks(predicted, weights), weights)


def _ranks(values: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Rank items repeated by their weights, (draws, items); equal items share a rank."""
    scores = np.asarray(values, float)
    if not len(scores):
        return weights
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(scores[order]) != 0])
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    groups = np.empty(len(scores), dtype=int)
    groups[order] = np.repeat(np.arange(len(starts)), np.diff([*starts, len(scores)]))
    return ranks[:, groups]
