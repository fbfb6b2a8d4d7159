"""Several seeds of one model: their spread, and how many seeds can show a difference."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import combinations
from math import inf
from statistics import fmean, median, stdev, variance

import numpy as np

from bmtools.statistics.resampling import Interval
from bmtools.statistics.samples import Sample, estimate_metrics
from bmtools.statistics.settings import StatisticsConfig
from bmtools.tasks.metrics.spans import Scores, rounded

POWER = 0.8
"""Probability of finding the difference with the number of seeds from `seeds_needed`."""
_MOST_SEEDS = 10_000
_DEALING = 3  # separates this random stream from the other statistics
_ROUNDING = 1e-10
_CORRELATIONS = ("pearson", "spearman")  # range -1 to 1; other metrics start at 0


def t_interval(values: Sequence[float], confidence: float, metric: str = "") -> Interval | None:
    """Bound the mean of normally distributed values by Student's t; None for fewer than two."""
    return interval_over_both(fmean(values), 0.0, 2, [values], confidence, metric) \
        if len(values) > 1 else None


def interval_over_both(value: float, error: float, documents: int,
                       sides: Sequence[Sequence[float]], confidence: float,
                       metric: str = "") -> Interval:
    """Bound a mean over seeds, or a difference of two means, over documents and seeds.

    The variances over documents and over seeds are added; the degrees of freedom for Student's t
    are by Welch and Satterthwaite. Variance shared by documents and seeds counts twice, so the
    interval is slightly too wide. Resampling a few seeds would make it too narrow.

    Args:
        value: the mean, or the difference.
        error: its standard error over documents.
        documents: number of documents.
        sides: each model's values by seed; with a single seed, the variance over seeds is unknown
            and counts as 0.
        confidence: level of the interval.
        metric: name of the metric, whose range limits the bounds (for a difference of two models,
            twice that range); empty for values without a range.
    """
    from scipy.stats import t

    parts = [(error**2, documents - 1)] + [
        (variance(own) / len(own), len(own) - 1) for own in sides if len(own) > 1]
    total = sum(part for part, _ in parts)
    if not total:
        return value, value
    freedom = total**2 / sum(part**2 / own for part, own in parts)
    half = float(t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(total)
    lowest, highest = (-1 if metric in _CORRELATIONS else 0,
                       inf if "_per_" in metric else 1) if metric else (-inf, inf)
    if len(sides) > 1:
        lowest, highest = lowest - highest, highest - lowest
    return max(value - half, lowest), min(value + half, highest)


def summarize_seeds(seeds: Sequence[Sample], names: Sequence[str],
                    settings: StatisticsConfig) -> dict[str, Scores]:
    """Summarize a model's metrics over seeds.

    Args:
        seeds: results of two or more seeds on the same documents.
        names: names of the metrics.
        settings: resamples and confidence.

    Returns:
        by metric: `mean`, with an `interval` over seeds and documents; `seeds_interval`, by t, for
        these documents; `documents_interval`, by the bootstrap, for these seeds; `median`;
        `deviation`, the sample standard deviation; `seeds`. Undefined metrics are left out.
    """
    estimates = estimate_metrics(seeds, settings)
    values = [seed.metrics() for seed in seeds]
    summary: dict[str, Scores] = {}
    for name in names:
        own, (mean, over_documents, error, _) = [one[name] for one in values], estimates[name]
        if not math.isfinite(mean):
            continue
        bounds = {
            "interval": None if error is None else interval_over_both(
                mean, error, seeds[0].documents, [own], settings.confidence, name),
            "seeds_interval": t_interval(own, settings.confidence, name),
            "documents_interval": over_documents}
        summary[name] = {
            "mean": rounded(mean),
            **{key: [rounded(bound) for bound in found] for key, found in bounds.items() if found},
            "median": rounded(median(own)), "deviation": rounded(stdev(own)), "seeds": len(own)}
    return summary


def p_over_seeds(first: Sequence[float], second: Sequence[float],
                 settings: StatisticsConfig) -> float | None:
    """Test whether two models' mean scores differ, by permuting seeds between the models.

    If there are fewer permutations than resamples, all are used. With n seeds per model, the
    p-value is at least 2 divided by the number of permutations: 0.1 for three seeds, 0.008 for
    five.

    Source: Fisher's permutation test; Efron and Tibshirani 1993, chapter 15.

    Returns:
        two-sided p-value; None with fewer than two seeds on a side.
    """
    if min(len(first), len(second)) < 2 or not settings.resamples:
        return None
    values = np.array([*first, *second])
    size, total = len(first), len(values)
    deals = math.comb(total, size)
    observed = abs(fmean(first) - fmean(second)) - _ROUNDING
    if deals <= settings.resamples:
        chosen = np.array([*combinations(range(total), size)])
        extreme, tried = 0, deals
    else:
        generator = np.random.default_rng((settings.seed, _DEALING))
        chosen = generator.permuted(
            np.tile(np.arange(total), (settings.resamples, 1)), axis=1)[:, :size]
        extreme, tried = 1, settings.resamples + 1
    sums = values[chosen].sum(axis=1)
    differences = sums / size - (values.sum() - sums) / (total - size)
    return float((extreme + np.count_nonzero(np.abs(differences) >= observed)) / tried)


def seeds_needed(difference: float, first: Sequence[float], second: Sequence[float],
                 confidence: float, power: float = POWER) -> int | None:
    """Compute how many seeds of each model would show a difference of this size.

    This is the minimum number with which a two-sided t test finds the difference with the given
    power, if the standard deviations equal those of the present seeds.

    Source: Cohen 1988, chapter 2, by the noncentral t distribution.

    Returns:
        seeds for each model; None if a model has fewer than two, if all seeds agree, if there is
        no difference, or if more than ten thousand would be needed.
    """
    if min(len(first), len(second)) < 2:
        return None
    deviation = math.sqrt((stdev(first)**2 + stdev(second)**2) / 2)
    if not deviation or not difference:
        return None
    from scipy.stats import nct, t

    effect = abs(difference) / deviation

    def finds(seeds: int) -> bool:
        freedom, shift = 2 * (seeds - 1), effect * math.sqrt(seeds / 2)
        limit = t.ppf((1 + confidence) / 2, freedom)
        # Far beyond the limit the distribution is NaN; the power there is 1.
        missed = nct.cdf(limit, freedom, shift) - nct.cdf(-limit, freedom, shift)
        return bool(not missed > 1 - power)

    tried = range(2, _MOST_SEEDS + 1)
    place = bisect_left(tried, True, key=finds)
    return tried[place] if place < len(tried) else None
