from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest

from bmtools.statistics.samples import Sample
from bmtools.statistics.settings import StatisticsConfig
from bmtools.tasks.metrics.seeds import (
    interval_over_both,
    p_over_seeds,
    seeds_needed,
    summarize_seeds,
    t_interval,
)

stats = pytest.importorskip("scipy.stats")
SETTINGS = StatisticsConfig(resamples=300)


def test_interval_for_one_source_of_variance_equals_the_standard_one() -> None:
    values = [0.8, 0.82, 0.85]
    assert interval_over_both(fmean(values), 0.0, 100, [values], 0.9) == pytest.approx(
        t_interval(values, 0.9))
    documents = interval_over_both(0.5, 0.02, 50, [[0.5]], 0.95)
    assert documents == pytest.approx(stats.t.interval(0.95, 49, loc=0.5, scale=0.02))
    two = interval_over_both(0.1, 0.0, 50, [values, [0.7, 0.71, 0.75]], 0.95)
    welch = stats.ttest_ind(values, [0.7, 0.71, 0.75], equal_var=False)
    half = (welch.confidence_interval(0.95).high - welch.confidence_interval(0.95).low) / 2
    assert two == pytest.approx((0.1 - half, 0.1 + half))
    assert interval_over_both(0.5, 0.0, 50, [[0.5, 0.5]], 0.95) == (0.5, 0.5)


@pytest.mark.parametrize(("metric", "lowest"), [("f1", 0), ("spearman", -1)])
def test_intervals_stay_within_the_range_of_their_metric(metric: str, lowest: int) -> None:
    """Student's t ignores the range: for 0.1, 0.3 and 0.5 it computes -0.2 to 0.8."""
    wide = [0.05, 0.95]
    assert t_interval(wide, 0.95, metric) == (lowest, 1)
    assert t_interval([0.1, 0.3, 0.5], 0.95, metric) == pytest.approx(
        (max(lowest, -0.1968), 0.7968), abs=1e-4)
    assert interval_over_both(0.5, 0.4, 20, [wide], 0.95, metric) == (lowest, 1)
    assert interval_over_both(0.0, 0.4, 20, [wide, wide], 0.95, metric) == (lowest - 1, 1 - lowest)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("spread", [0.03, 0.2])
def test_interval_over_both_contains_the_true_mean(seeds: int, spread: float) -> None:
    """Scores vary by document, by seed and by both; an interval over only one is too narrow."""
    rng = np.random.default_rng(seeds)
    held = over_seeds = over_documents = 0
    trials, documents = 1000, 100
    for _ in range(trials):
        scores = rng.normal(size=documents) + rng.normal(size=(seeds, documents)) \
            + spread * rng.normal(size=(seeds, 1))
        values = scores.mean(axis=1).tolist()
        error = scores.mean(axis=0).std(ddof=1) / math.sqrt(documents)
        low, high = interval_over_both(fmean(values), error, documents, [values], 0.95)
        held += low <= 0 <= high
        low, high = t_interval(values, 0.95) or (0.0, 0.0)
        over_seeds += low <= 0 <= high
        over_documents += abs(fmean(values)) <= 1.984 * error
    assert 0.93 <= held / trials <= 0.985
    assert min(over_seeds, over_documents) / trials < 0.9


def test_seeds_are_summarized() -> None:
    rng = np.random.default_rng(1)
    sizes = np.full(40, 5)

    def accuracy(totals: np.ndarray) -> dict[str, np.ndarray]:
        return {"accuracy": totals[:, 0] / totals[:, 1], "absent": np.full(len(totals), np.nan)}

    seeds = [Sample(np.stack([rng.binomial(sizes, 0.8), sizes], axis=1).astype(float),
                         accuracy) for _ in range(3)]
    values = sorted(seed.metrics()["accuracy"] for seed in seeds)
    summary = summarize_seeds(seeds, ("accuracy", "absent"), SETTINGS)
    assert list(summary) == ["accuracy"]
    line = summary["accuracy"]
    assert line["mean"] == pytest.approx(fmean(values), abs=1e-6)
    assert line["median"] == pytest.approx(values[1], abs=1e-6)
    assert line["deviation"] == pytest.approx(stdev(values), abs=1e-6)
    assert line["seeds_interval"] == pytest.approx(t_interval(values, 0.95), abs=1e-6)
    low, high = line["documents_interval"]
    assert low < fmean(values) < high
    assert line["interval"][0] < low and high < line["interval"][1]
    alone = summarize_seeds(seeds, ("accuracy",), StatisticsConfig(resamples=0))["accuracy"]
    assert "interval" not in alone and "documents_interval" not in alone


def test_p_values_over_seeds_use_all_permutations() -> None:
    rng = np.random.default_rng(2)
    for sizes in ((3, 3), (2, 4), (5, 5)):
        first, second = (rng.normal(size=size).round(1).tolist() for size in sizes)
        values = [*first, *second]
        observed = abs(fmean(first) - fmean(second))
        deals = [abs(fmean([values[n] for n in chosen])
                     - fmean([values[n] for n in range(len(values)) if n not in chosen]))
                 >= observed - 1e-9 for chosen in combinations(range(len(values)), sizes[0])]
        assert p_over_seeds(first, second, SETTINGS) == pytest.approx(fmean(deals))
    assert p_over_seeds([1, 2, 3], [7, 8, 9], SETTINGS) == 0.1
    assert p_over_seeds([1], [2, 3], SETTINGS) is None


def test_p_values_over_many_seeds_sample_permutations() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(0.4, 1, 20).tolist(), rng.normal(0, 1, 20).tolist()
    found = p_over_seeds(first, second, StatisticsConfig(resamples=4000))
    theirs = stats.permutation_test(
        (first, second), lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        n_resamples=4000, rng=np.random.default_rng(0)).pvalue
    assert found == pytest.approx(theirs, abs=0.03)
    assert found == p_over_seeds(first, second, StatisticsConfig(resamples=4000))


@pytest.mark.parametrize(("effect", "seeds"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.2, 12)])
def test_seeds_needed_equal_cohens_tables(effect: float, seeds: int) -> None:
    """Cohen 1988, table 2.4.1, two-sided at 0.05, power 0.80; the table has 393 for the first."""
    values = [-1 / math.sqrt(2), 1 / math.sqrt(2)]  # deviation 1
    assert seeds_needed(effect, values, [5 + value for value in values], 0.95) == seeds
