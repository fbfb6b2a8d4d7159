"""Measures of spaces, compared with brute force, known cases and other implementations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bmtools.scoring.space_metrics import (
    UnitVectorSums,
    own_group_neighbours,
    partition_isotropy,
    principal_components,
    silhouettes,
)

WORDS = np.array([0, 1, 1, 2, 2, 2, 3, 4, 4, 4, 4])


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).normal(0.4, 1, (len(WORDS), 6)).astype(np.float32)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(float), other.astype(float)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1, 1), (0, 2, 1, 0, 3), (0, 1, 0, 0, 1)])
def test_average_cosine_equals_all_pairs(vectors: np.ndarray, weights: tuple[int, ...]) -> None:
    pairs = [(weights[WORDS[a]] * weights[WORDS[b]], cosine(vectors[a], vectors[b]))
             for a, b in itertools.permutations(range(len(WORDS)), 2) if WORDS[a] != WORDS[b]]
    expected = sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)
    sums = UnitVectorSums.of(vectors, WORDS, 5)
    found = sums.average_cosine(np.array([weights, (1, 0, 0, 0, 0)], dtype=float))
    assert found[0] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(found[1])


def test_self_similarity_equals_pairs_within_words(vectors: np.ndarray) -> None:
    found = UnitVectorSums.of(vectors, WORDS, 5).self_similarities()
    for word in range(5):
        own = vectors[word == WORDS]
        pairs = [cosine(a, b) for a, b in itertools.combinations(own, 2)]
        assert found[word] == pytest.approx(np.mean(pairs), abs=1e-12) if pairs \
            else np.isnan(found[word])


def test_partition_isotropy_equals_its_formula(vectors: np.ndarray) -> None:
    exact = vectors.astype(float)
    directions = np.linalg.svd(exact)[2]
    sums = [sum(np.exp(sign * direction @ row) for row in exact)
            for direction in directions for sign in (1, -1)]
    assert partition_isotropy(vectors) == pytest.approx(min(sums) / max(sums), rel=1e-9)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    assert partition_isotropy(exact @ rotation) == pytest.approx(
        partition_isotropy(exact), rel=1e-9)


def test_components_equal_singular_value_decomposition(vectors: np.ndarray) -> None:
    centred = vectors.astype(float) - vectors.astype(float).mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    expected, found = (left * values)[:, :2], principal_components(vectors, 2)
    signs = np.sign((expected * found).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-6)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


@pytest.mark.parametrize("sizes", [(9, 8, 7), (20, 1, 3)])
def test_silhouettes_equal_their_formula(sizes: tuple[int, ...]) -> None:
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


def test_neighbours_equal_brute_force() -> None:
    rng = np.random.default_rng(6)
    vectors, groups = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    found = own_group_neighbours(vectors, groups, 7)
    for one in range(60):
        others = sorted((-cosine(vectors[one], vectors[two]), two)
                        for two in range(60) if two != one)[:7]
        assert found[one] == pytest.approx(
            sum(groups[two] == groups[one] for _, two in others) / 7)
