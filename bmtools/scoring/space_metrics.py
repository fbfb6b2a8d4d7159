"""How vectors fill their space, and whether groups of them lie apart; all in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROWS_AT_ONCE = 1_024
_LEAST_LENGTH = 1e-300


def unit(vectors: np.ndarray) -> np.ndarray:
    """Bring vectors, (any, width), to length 1 in float64; zeros stay."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.maximum(lengths, _LEAST_LENGTH)


@dataclass(frozen=True)
class Sums:
    """Unit vectors of places, summed by word: all that cosines between places need.

    Args:
        totals: (words, width) float64.
        sizes: (words,) float64, places of each.
    """

    totals: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray, words: np.ndarray, count: int) -> Sums:
        """Sum (places, width) vectors by word, (places,), from 0 to count - 1."""
        totals = np.zeros((count, vectors.shape[1]))
        np.add.at(totals, words, unit(vectors))
        return cls(totals, np.bincount(words, minlength=count).astype(np.float64))

    def average_cosine(self, weights: np.ndarray) -> np.ndarray:
        """Mean cosine between places of different words: 0 isotropic, 1 all alike.

        Source: Ethayarajh 2019, section 3.4, which draws 1,000 pairs; here it is all pairs, by
        the square of the sum less the squares within words.

        Args:
            weights: (draws, words), how often each word counts.

        Returns:
            (draws,); NaN where there are no two words.
        """
        pairs = np.square(weights @ self.sizes) - np.square(weights) @ np.square(self.sizes)
        sums = np.square(weights @ self.totals).sum(axis=1) \
            - np.square(weights) @ np.square(self.totals).sum(axis=1)
        return np.divide(sums, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)

    def self_similarities(self) -> np.ndarray:
        """Mean cosine between a word's own places, (words,); NaN where it has but one.

        Source: Ethayarajh 2019, definition 1.
        """
        pairs = self.sizes * (self.sizes - 1)
        sums = np.square(self.totals).sum(axis=1) - self.sizes
        return np.divide(sums, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def partition_isotropy(vectors: np.ndarray) -> float:
    """Least over greatest sum of exp(c.w), for eigenvectors c of W'W: 1 isotropic, 0 not at all.

    Vectors stay as they are, neither centred nor brought to one length, as in the paper. The sign
    of an eigenvector means nothing, so both signs are tried: a departure that makes the figure
    one of the vectors alone. Sums are kept as logarithms.

    Source: Mu and Viswanath 2018 (All-but-the-Top), the measure I(V) over eigenvectors.

    Args:
        vectors: W, (places, width).
    """
    exact = vectors.astype(np.float64)
    directions = np.linalg.eigh(exact.T @ exact)[1]
    logs = [_log_partition(exact, sign * directions) for sign in (1, -1)]
    return float(np.exp(np.min(logs) - np.max(logs)))


def _log_partition(vectors: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Logarithm of the sum of exp(c.w) over vectors, (directions,)."""
    logs = np.full(directions.shape[1], -np.inf)
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        found = vectors[first:first + _ROWS_AT_ONCE] @ directions
        most = found.max(axis=0)
        logs = np.logaddexp(logs, most + np.log(np.exp(found - most).sum(axis=0)))
    return logs


def variance_shares(vectors: np.ndarray, components: tuple[int, ...]) -> list[float]:
    """Share of the variance in the first so many principal components, vectors centred."""
    centred = vectors.astype(np.float64)
    centred -= centred.mean(axis=0)
    values = np.maximum(np.linalg.eigvalsh(centred.T @ centred)[::-1], 0)
    total = values.sum()
    return [float(values[:number].sum() / total) if total else 0.0 for number in components]


def principal_components(vectors: np.ndarray, number: int) -> np.ndarray:
    """Project centred vectors on their first principal components, (vectors, number).

    The sign of a component means nothing; here the coordinate that is farthest out is positive.
    """
    centred = vectors.astype(np.float64)
    centred -= centred.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.zeros((len(vectors), number))
    known = min(number, len(values))
    found[:, :known] = left[:, :known] * values[:known]
    farthest = found[np.abs(found).argmax(axis=0), np.arange(number)]
    return found * np.where(farthest < 0, -1.0, 1.0)


def own_group_neighbours(vectors: np.ndarray, groups: np.ndarray, neighbours: int) -> np.ndarray:
    """Share of the nearest others, by cosine, that are of a vector's own group, (vectors,)."""
    units = unit(vectors)
    shares = np.zeros(len(units))
    for first in range(0, len(units), _ROWS_AT_ONCE):
        rows = np.arange(first, min(first + _ROWS_AT_ONCE, len(units)))
        cosines = units[rows] @ units.T
        cosines[np.arange(len(rows)), rows] = -np.inf
        nearest = np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours]
        shares[rows] = (groups[nearest] == groups[rows, None]).mean(axis=1)
    return shares


def chance_of_own_group(groups: np.ndarray) -> float:
    """Share of others that are of a vector's own group, on average: what chance gives."""
    sizes = np.bincount(groups).astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / (len(groups) * (len(groups) - 1)))


def silhouettes(vectors: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Silhouette of each vector by cosine distance, (vectors,), -1 to 1: 1 well apart, 0 not.

    Mean distances to a group are distances to its mean unit vector, so no pair is looked at.

    Source: Rousseeuw 1987; 0 for the only one of its group.

    Args:
        vectors: (vectors, width).
        groups: (vectors,) from 0, at least two distinct ones.
    """
    units = unit(vectors)
    _, groups = np.unique(groups, return_inverse=True)
    sizes = np.bincount(groups).astype(np.float64)
    sums = np.stack([units[groups == group].sum(axis=0) for group in range(len(sizes))])
    cosines = units @ sums.T
    rows = np.arange(len(units))
    own = 1 - (cosines[rows, groups] - np.square(units).sum(axis=1)) \
        / np.maximum(sizes[groups] - 1, 1)
    distances = 1 - cosines / sizes
    distances[rows, groups] = np.inf
    nearest = distances.min(axis=1)
    most = np.maximum(np.maximum(own, nearest), _LEAST_LENGTH)
    return np.where(sizes[groups] > 1, (nearest - own) / most, 0.0)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation; equal values share their mean rank. NaN where one never changes."""
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (one, other)]
    lengths = float(np.linalg.norm(ranks[0]) * np.linalg.norm(ranks[1]))
    return float(ranks[0] @ ranks[1] / lengths) if lengths else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values at the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[places]
