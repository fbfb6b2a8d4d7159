"""Resampling of units: bootstrap intervals and permutation tests.

A unit is independent of other units, such as a sentence or a document. `ratios` and `samples`
compute the scores of resampled units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from bmtools.statistics.settings import StatisticsConfig

Interval = tuple[float, float]
Values = dict[str, np.ndarray]
"""Scores by name, (draws,) each; NaN for undefined scores."""

FEWEST_UNITS = 10
"""Minimum number of units for an interval; with fewer, all tested methods are too often wrong."""
_NUMBERS_AT_ONCE = 1 << 18  # some megabytes, or one resample if it has more units
_RESAMPLING, _EXCHANGING = range(2)  # give different random streams for one seed
_WORD_BITS = 32


def resamples(units: int, settings: StatisticsConfig) -> Iterator[np.ndarray]:
    """Yield the numbers of resampled units, (resamples, units), for some resamples at a time."""
    generator = np.random.default_rng((settings.seed, _RESAMPLING))
    step = max(1, _NUMBERS_AT_ONCE // units)
    for start in range(0, settings.resamples, step):
        yield generator.integers(0, units, size=(min(step, settings.resamples - start), units))


def percentile_interval(values: np.ndarray, units: int, confidence: float) -> Interval:
    """Return the expanded percentiles of a score in resamples with this number of units."""
    tail = expanded_tail(units, confidence)
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def expanded_tail(units: int, confidence: float) -> float:
    """Compute the share of resamples below an interval (Hesterberg 2015, section 5.3)."""
    z, freedom = NormalDist().inv_cdf((1 + confidence) / 2), units - 1
    # Quantile of the t distribution (Abramowitz and Stegun, 26.7.5); importing scipy takes 0.2 s.
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return NormalDist().cdf(-t * math.sqrt(units / freedom))


def exchange_p_values(least: Mapping[str, float], differences: Callable[[np.ndarray], Values],
                      units: int, settings: StatisticsConfig) -> dict[str, float]:
    """Compute the share of exchanges in which two models differ by at least the observed amount.

    The observed state counts as one more exchange, so that p-values are above 0 (Phipson and Smyth
    2010). Exchanges in which a difference is undefined do not count.

    Args:
        least: by score, the observed absolute difference minus a margin for rounding.
        differences: computes the differences in exchanges, (exchanges, units) of 0 and 1.
        units: number of units.
        settings: number of exchanges, and their seed.
    """
    extreme = dict.fromkeys(least, 1)
    tried = dict(extreme)
    for exchanged in exchanges(units, settings):
        values = differences(exchanged)
        for name, limit in least.items():
            extreme[name] += int(np.count_nonzero(np.abs(values[name]) >= limit))
            tried[name] += int(np.count_nonzero(np.isfinite(values[name])))
    return {name: extreme[name] / tried[name] for name in least}


def exchanges(units: int, settings: StatisticsConfig) -> Iterator[np.ndarray]:
    """Yield which units are swapped, (exchanges, units) of 0 and 1, for some exchanges at a time.

    These are all exchanges except the observed state, or random exchanges.
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons, so that their level holds for all together.

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
