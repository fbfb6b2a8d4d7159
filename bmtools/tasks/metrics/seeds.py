"""Several seeds of one model: their spread, and what it takes to tell two models apart."""

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
"""Probability with which `seeds_needed` lets a difference be seen."""
_MOST_SEEDS = 10_000
_DEALING = 3  # purpose of draws beside those of the other statistics
_ROUNDING = 1e-10
_CORRELATIONS = ("pearson", "spearman")  # from -1 to 1; other metrics from 0


def t_interval(values: Sequence[float], confidence: float, metric: str = "") -> Interval | None:
    """Bound the mean of a metric's normal values by Student's t; None of fewer than two."""
    return interval_over_both(fmean(values), 0.0, 2, [values], confidence, metric) \
        if len(values) > 1 else None


def interval_over_both(value: float, error: float, documents: int,
                       sides: Sequence[Sequence[float]], confidence: float,
                       metric: str = "") -> Interval:
    """Bound a mean over seeds, or the difference of two, over documents and seeds.

    The variances over documents and over seeds add up; Student's t has the degrees of freedom by
    Welch and Satterthwaite. What documents and seeds have in common counts twice, so that the
    interval is rather too wide. Resampling a handful of seeds would make it too narrow.

    Args:
        value: the mean, or the difference.
        error: its standard error over documents.
        documents: how many.
        sides: each model's values by seed; of a single one the seeds' variance is unknown and
            counts as 0.
        confidence: level of the interval.
        metric: whose range the bounds stay in, or twice that range for the difference of two
            models; empty for values without a range.
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
        seeds: results of each of two or more, on the same documents.
        names: of the metrics.
        settings: resamples and confidence.

    Returns:
        by metric: `mean`, with an `interval` over seeds and documents; `seeds_interval`, for the
        documents at hand, by t; `documents_interval`, for the seeds at hand, by the bootstrap;
        `median`; `deviation` of a sample; `seeds`. Without metrics that are undefined.
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
    """Test whether two models' scores differ in mean, by dealing their seeds anew to both.

    All deals are tried where they are fewer than the resamples. With n seeds each the p-value is
    at least 2 over the number of deals: 0.1 of three, 0.008 of five.

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

    That is the least number with which a two-sided t test finds it with the given power, if the
    deviations are those of the seeds at hand.

    Source: Cohen 1988, chapter 2, by the noncentral t distribution.

    Returns:
        seeds of each model; None where one has fewer than two, where all agree, where there is no
        difference, or where it would take more than ten thousand.
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
        # Far beyond the limit the distribution is not a number; the power there is 1.
        missed = nct.cdf(limit, freedom, shift) - nct.cdf(-limit, freedom, shift)
        return bool(not missed > 1 - power)

    tried = range(2, _MOST_SEEDS + 1)
    place = bisect_left(tried, True, key=finds)
    return tried[place] if place < len(tried) else None
