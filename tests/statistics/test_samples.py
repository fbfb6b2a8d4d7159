from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from bmtools.statistics.samples import PairSample, Sample, compare_samples, estimate_metrics
from bmtools.statistics.settings import StatisticsConfig
from bmtools.tasks.metrics.samples import matches

SETTINGS = StatisticsConfig(resamples=200, seed=3)


def accuracy(totals: np.ndarray) -> dict[str, np.ndarray]:
    return {"accuracy": totals[:, 0] / totals[:, 1]}


def random_counts(seed: int, documents: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = np.random.default_rng(0).integers(1, 5, documents)
    return np.stack([rng.binomial(sizes, 0.7), sizes], axis=1).astype(float)


def f1_counts(seed: int, documents: int) -> np.ndarray:
    """Return correct, predicted and gold annotations of one type, (documents, 1, 3)."""
    rng = np.random.default_rng(seed)
    support = np.random.default_rng(9).integers(0, 4, documents)
    correct = rng.binomial(support, 0.6)
    return np.stack([correct, correct + rng.integers(0, 2, documents), support],
                    axis=1)[:, None].astype(float)


def brute_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of all exchanges in which F1 differs by at least the observed difference."""
    def f1(counts: np.ndarray) -> float:
        correct, predicted, support = counts.sum(axis=(0, 1))
        return 2 * correct / (predicted + support)

    observed = abs(f1(first) - f1(second))
    differing = []
    for swaps in product([False, True], repeat=len(first)):
        chosen = np.array(swaps)[:, None, None]
        differing.append(abs(f1(np.where(chosen, second, first))
                             - f1(np.where(chosen, first, second))) >= observed - 1e-9)
    return sum(differing) / len(differing)


def test_f1_is_compared_by_exchanging_documents() -> None:
    for seed in range(5):
        first, second = f1_counts(seed, 7), f1_counts(seed + 10, 7)
        first[2] = second[2] = 0  # a document without annotations and predictions
        found = compare_samples([Sample(first, matches)], [Sample(second, matches)],
                                SETTINGS)["f1"]
        assert found.p_value == pytest.approx(brute_p_value(first, second))
        assert found.interval is None  # too few documents for an interval


def test_intervals_of_f1_equal_a_loop_over_resamples() -> None:
    counts = f1_counts(1, 30)
    counts = counts[counts.any(axis=(1, 2))]
    drawn = np.random.default_rng((SETTINGS.seed, 0)).integers(
        0, len(counts), (SETTINGS.resamples, len(counts)))
    values = [2 * c / (p + s) for c, p, s in (counts[row].sum(axis=(0, 1)) for row in drawn)]
    found = estimate_metrics([Sample(counts, matches)], SETTINGS)["f1"]
    assert found.interval is not None and found.error is not None
    low, high = found.interval
    assert min(values) <= low < np.quantile(values, 0.025) + 1e-12
    assert np.quantile(values, 0.975) - 1e-12 < high <= max(values)
    size = len(counts)
    assert found.error == pytest.approx(np.std(values) * math.sqrt(size / (size - 1)))


def pair_sample(seed: int, documents: int = 25) -> PairSample:
    """Return scores of items, some documents with two; gold is the same for every seed."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(documents), 1 + np.arange(documents) % 2)
    gold = np.round(np.random.default_rng(0).normal(size=len(owners)), 1)
    return PairSample(gold, np.round(gold + rng.normal(size=len(owners)), 1), owners, documents)


def test_correlations_are_resampled_with_their_documents() -> None:
    stats = pytest.importorskip("scipy.stats")
    sample = pair_sample(1)
    weights = np.random.default_rng(4).integers(0, 3, (3, 25)).astype(float)
    found = sample.measure_weighted(weights)
    for number, row in enumerate(weights):
        repeats = row.astype(int)[sample.items[2]]
        sides = np.repeat(sample.items[0], repeats), np.repeat(sample.items[1], repeats)
        assert found["pearson"][number] == pytest.approx(stats.pearsonr(*sides).statistic)
        assert found["spearman"][number] == pytest.approx(stats.spearmanr(*sides).statistic)


def test_correlations_are_compared_by_exchanging_documents() -> None:
    stats = pytest.importorskip("scipy.stats")
    first, second = pair_sample(1, 6), pair_sample(2, 6)
    compared = compare_samples([first], [second], SETTINGS)
    for name, coefficient in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        differences = []
        for swaps in product([False, True], repeat=6):
            chosen = np.array(swaps)[first.items[2]]
            one = np.where(chosen, second.items[1], first.items[1])
            other = np.where(chosen, first.items[1], second.items[1])
            differences.append(coefficient(first.items[0], one).statistic
                               - coefficient(first.items[0], other).statistic)
        extreme = np.abs(differences) >= abs(differences[0]) - 1e-9
        assert compared[name].value == pytest.approx(differences[0])
        assert compared[name].p_value == pytest.approx(extreme.mean())


def test_seeds_exchange_documents_together() -> None:
    first = [Sample(random_counts(seed), accuracy) for seed in (1, 2, 3)]
    second = [Sample(random_counts(seed), accuracy) for seed in (4, 5, 6)]
    found = compare_samples(first, second, SETTINGS)["accuracy"]
    means = [np.mean([seed.metrics()["accuracy"] for seed in seeds]) for seeds in (first, second)]
    assert found.value == pytest.approx(means[0] - means[1])
    # Accuracy has the same denominators for all seeds, so its mean is computed from mean counts.
    joined = [Sample(sum(seed.counts for seed in seeds), accuracy)
              for seeds in (first, second)]
    theirs = compare_samples(joined[:1], joined[1:], SETTINGS)["accuracy"]
    assert found.p_value == theirs.p_value
    assert found.interval == pytest.approx(theirs.interval)


def outcomes(rng: np.random.Generator, chances: np.ndarray, seeds: int) -> list[Sample]:
    """Return correct answers for seeds with the same probability for each document."""
    return [Sample(np.stack([rng.binomial(1, chances), np.ones(len(chances))],
                                 axis=1).astype(float), accuracy) for _ in range(seeds)]


def test_different_numbers_of_seeds_are_exchanged_in_all_pairs() -> None:
    first = [f1_counts(seed, 6) for seed in (1, 2)]
    second = [f1_counts(3, 6)]

    def f1(counts: np.ndarray) -> float:
        correct, predicted, support = counts.sum(axis=(0, 1))
        return 2 * correct / (predicted + support)

    differences = []
    for swaps in product([False, True], repeat=6):
        chosen = np.array(swaps)[:, None, None]
        differences.append(np.mean([f1(np.where(chosen, second[0], one))
                                    - f1(np.where(chosen, one, second[0])) for one in first]))
    extreme = np.abs(differences) >= abs(differences[0]) - 1e-9
    found = compare_samples([Sample(one, matches) for one in first],
                            [Sample(second[0], matches)], SETTINGS)["f1"]
    assert found.value == pytest.approx(differences[0])
    assert found.p_value == pytest.approx(extreme.mean())


@pytest.mark.parametrize(("seeds", "chance"), [((1, 5), 0.9), ((3, 2), 0.6), ((2, 5), None)])
def test_equal_models_are_rejected_at_the_level_of_p( seeds: tuple[int, int],
                                                     chance: float | None) -> None:
    """Documents are equally or differently hard; one seed is skewed against the mean of five."""
    rng = np.random.default_rng(5)
    settings = StatisticsConfig(resamples=199)
    p_values = []
    for _ in range(400):
        chances = np.full(60, chance) if chance else rng.beta(2, 1, 60)
        models = [outcomes(rng, chances, count) for count in seeds]
        p_value = compare_samples(*models, settings)["accuracy"].p_value
        assert p_value is not None
        p_values.append(p_value)
    for level in (0.05, 0.2):
        expected = level * len(p_values)
        tolerance = 3 * math.sqrt(expected * (1 - level))
        assert abs(np.count_nonzero(np.array(p_values) <= level) - expected) < tolerance
