"""Measures of spaces against brute force, closed cases and other implementations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bmtools.scoring.space_metrics import (
    UnitVectorSums,
    chance_of_own_group,
    own_group_neighbours,
    partition_isotropy,
    principal_components,
    rank_correlation,
    silhouettes,
    variance_shares,
)

WORDS = np.array([0, 1, 1, 2, 2, 2, 3, 4, 4, 4, 4])


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).normal(0.4, 1, (len(WORDS), 6)).astype(np.float32)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(float), other.astype(float)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1, 1), (0, 2, 1, 0, 3), (0, 1, 0, 0, 1)])
def test_average_cosine_is_that_of_all_pairs(vectors: np.ndarray, weights: tuple[int, ...]) -> None:
    pairs = [(weights[WORDS[a]] * weights[WORDS[b]], cosine(vectors[a], vectors[b]))
             for a, b in itertools.permutations(range(len(WORDS)), 2) if WORDS[a] != WORDS[b]]
    expected = sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)
    sums = UnitVectorSums.of(vectors, WORDS, 5)
    found = sums.average_cosine(np.array([weights, (1, 0, 0, 0, 0)], dtype=float))
    assert found[0] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(found[1])


def test_self_similarity_is_that_of_pairs_within_words(vectors: np.ndarray) -> None:
    found = UnitVectorSums.of(vectors, WORDS, 5).self_similarities()
    for word in range(5):
        own = vectors[word == WORDS]
        pairs = [cosine(a, b) for a, b in itertools.combinations(own, 2)]
        assert found[word] == pytest.approx(np.mean(pairs), abs=1e-12) if pairs \
            else np.isnan(found[word])


def test_an_isotropic_space() -> None:
    vectors = np.random.default_rng(1).normal(size=(4_000, 20))
    sums = UnitVectorSums.of(vectors, np.arange(4_000) // 4, 1_000)
    assert abs(sums.average_cosine(np.ones((1, 1_000)))[0]) < 0.005
    assert abs(np.mean(sums.self_similarities())) < 0.02
    assert partition_isotropy(vectors) > 0.8
    assert variance_shares(vectors, (1, 20)) == pytest.approx([0.05, 1], abs=0.01)


def test_a_space_of_one_direction() -> None:
    noise = np.random.default_rng(2).normal(size=(400, 20))
    vectors = 10 * np.ones(20) + 0.1 * noise
    sums = UnitVectorSums.of(vectors, np.arange(400) // 4, 100)
    assert sums.average_cosine(np.ones((1, 100)))[0] > 0.999
    assert np.mean(sums.self_similarities()) > 0.999
    # Long vectors, whose exponentials are beyond the range of numbers.
    assert 0 <= partition_isotropy(1_000 * vectors) < 1e-12


def test_partition_isotropy_is_the_formula(vectors: np.ndarray) -> None:
    exact = vectors.astype(float)
    directions = np.linalg.svd(exact)[2]
    sums = [sum(np.exp(sign * direction @ row) for row in exact)
            for direction in directions for sign in (1, -1)]
    assert partition_isotropy(vectors) == pytest.approx(min(sums) / max(sums), rel=1e-9)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    assert partition_isotropy(exact @ rotation) == pytest.approx(
        partition_isotropy(exact), rel=1e-9)


def test_many_rows_are_summed_as_few_are() -> None:
    vectors = np.random.default_rng(4).normal(size=(2_500, 3))
    exact = np.exp(vectors @ np.linalg.eigh(vectors.T @ vectors)[1]).sum(axis=0)
    other = np.exp(-vectors @ np.linalg.eigh(vectors.T @ vectors)[1]).sum(axis=0)
    sums = np.concatenate([exact, other])
    assert partition_isotropy(vectors) == pytest.approx(sums.min() / sums.max(), rel=1e-9)


def test_components_are_those_of_singular_values(vectors: np.ndarray) -> None:
    centred = vectors.astype(float) - vectors.astype(float).mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    shares = np.cumsum(values**2) / np.sum(values**2)
    assert variance_shares(vectors, (1, 3, 5)) == pytest.approx(shares[[0, 2, 4]], abs=1e-9)
    expected, found = (left * values)[:, :2], principal_components(vectors, 2)
    signs = np.sign((expected * found).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-6)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


def test_points_on_a_line_have_one_component() -> None:
    found = principal_components(np.array([[0.0], [1.0], [5.0]]), 2)
    np.testing.assert_allclose(found, [[-2, 0], [-1, 0], [3, 0]], atol=1e-12)
    assert variance_shares(np.ones((3, 2)), (1,)) == [0.0]


@pytest.mark.parametrize("sizes", [(9, 8, 7), (20, 1, 3)])
def test_silhouettes_are_the_formula(sizes: tuple[int, ...]) -> None:
    groups = np.repeat(np.array([4, 0, 2]), sizes)
    vectors = np.random.default_rng(5).normal(size=(len(groups), 5)) + groups[:, None] / 3
    expected = []
    for one, group in enumerate(groups):
        distances = {other: [1 - cosine(vectors[one], vectors[two])
                             for two in np.flatnonzero(groups == other) if two != one]
                     for other in (0, 2, 4)}
        own = distances.pop(int(group))
        nearest = min(map(np.mean, distances.values()))
        expected.append((nearest - np.mean(own)) / max(nearest, np.mean(own)) if own else 0)
    np.testing.assert_allclose(silhouettes(vectors, groups), expected, atol=1e-9)


def test_silhouettes_of_one_group_or_of_single_vectors() -> None:
    vectors = np.random.default_rng(6).normal(size=(3, 4))
    assert np.isnan(silhouettes(vectors, np.zeros(3, dtype=int))).all()
    assert silhouettes(vectors, np.arange(3)).tolist() == [0, 0, 0]


def test_neighbours_by_brute_force() -> None:
    rng = np.random.default_rng(6)
    vectors, groups = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    found = own_group_neighbours(vectors, groups, 7)
    for one in range(60):
        others = sorted((-cosine(vectors[one], vectors[two]), two)
                        for two in range(60) if two != one)[:7]
        assert found[one] == pytest.approx(
            sum(groups[two] == groups[one] for _, two in others) / 7)


def test_groups_without_meaning_are_at_chance_and_planted_ones_apart() -> None:
    rng = np.random.default_rng(7)
    groups = np.repeat(np.arange(4), 300)
    vectors = rng.normal(size=(1_200, 16))
    chance = chance_of_own_group(groups)
    assert chance == pytest.approx(299 / 1_199)
    assert own_group_neighbours(vectors, groups, 10).mean() == pytest.approx(chance, abs=0.02)
    assert abs(silhouettes(vectors, groups).mean()) < 0.02
    apart = vectors + 100 * np.eye(16)[groups]
    assert own_group_neighbours(apart, groups, 10).mean() == 1
    assert silhouettes(apart, groups).mean() > 0.9


def test_chance_counts_pairs() -> None:
    groups = np.array([0, 0, 0, 1, 1, 2])
    pairs = list(itertools.permutations(range(6), 2))
    assert chance_of_own_group(groups) == pytest.approx(
        sum(groups[a] == groups[b] for a, b in pairs) / len(pairs))


def test_rank_correlation_is_that_of_mean_ranks() -> None:
    def ranks(values: np.ndarray) -> list[float]:
        return [np.mean(np.flatnonzero(np.sort(values) == value)) for value in values]

    rng = np.random.default_rng(8)
    for one, other in ((rng.normal(size=50), rng.normal(size=50)),
                       (rng.integers(0, 4, 50), rng.integers(0, 4, 50)),
                       (np.arange(5), np.array([9, 7, 5, 3, 1]))):
        assert rank_correlation(one, other) == pytest.approx(
            np.corrcoef(ranks(one), ranks(other))[0, 1], abs=1e-12)
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3)))


def test_zeros_have_no_direction() -> None:
    sums = UnitVectorSums.of(np.array([[0.0, 0.0], [3.0, 4.0]]), np.arange(2), 2)
    assert sums.totals.tolist() == [[0, 0], [0.6, 0.8]]
