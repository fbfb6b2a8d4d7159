"""Isotropy of vectors, and separation of groups of them; all in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UnitVectorSums:
    """Unit vectors of occurrences, summed by word: enough for all mean cosines.

    Args:
        totals: (words, width) float64.
        sizes: (words,) float64, occurrences of each.
    """

    totals: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray, words: np.ndarray, count: int) -> UnitVectorSums:
        """Sum (occurrences, width) vectors by word, (occurrences,), from 0 to count - 1.

        Each is scaled to length 1 in float64; zeros stay.
        """
        from sklearn.preprocessing import normalize

        totals = np.zeros((count, vectors.shape[1]))
        np.add.at(totals, words, normalize(vectors.astype(np.float64)))
        return cls(totals, np.bincount(words, minlength=count).astype(np.float64))

    def average_cosine(self, weights: np.ndarray) -> np.ndarray:
        """Average the cosine between occurrences of different words: 0 isotropic, 1 all alike.

        Source: Ethayarajh 2019, section 3.4, which draws 1,000 pairs; here it is all pairs, by
        the square of the sum less the squares within words.

        Args:
            weights: (draws, words), how often each word counts.

        Returns:
            (draws,); NaN with fewer than two words.
        """
        pairs = np.square(weights @ self.sizes) - np.square(weights) @ np.square(self.sizes)
        sums = np.square(weights @ self.totals).sum(axis=1) \
            - np.square(weights) @ np.square(self.totals).sum(axis=1)
        return np.divide(sums, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)

    def self_similarities(self) -> np.ndarray:
        """Average the cosine between a word's occurrences, (words,); NaN where it has but one.

        Source: Ethayarajh 2019, definition 1.
        """
        pairs = self.sizes * (self.sizes - 1)
        sums = np.square(self.totals).sum(axis=1) - self.sizes
        return np.divide(sums, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def partition_isotropy(vectors: np.ndarray) -> float:
    """Divide the least by the greatest sum of exp(c.w), for eigenvectors c of W'W: 1 isotropic.

    Vectors are neither centred nor scaled, as in the paper. The sign of an eigenvector is
    arbitrary, so both signs are tried: a departure that makes the result depend on the vectors
    alone.

    Source: Mu and Viswanath 2018 (All-but-the-Top), the measure I(V) over eigenvectors.

    Args:
        vectors: W, (occurrences, width).
    """
    from scipy.special import logsumexp

    exact = vectors.astype(np.float64)
    products = exact @ np.linalg.eigh(exact.T @ exact)[1]
    logs = [logsumexp(sign * products, axis=0) for sign in (1, -1)]
    return float(np.exp(np.min(logs) - np.max(logs)))


def principal_components(vectors: np.ndarray, number: int) -> np.ndarray:
    """Project vectors onto their first principal components, (vectors, number).

    The sign of a component is arbitrary; here the coordinate that is farthest out is positive.
    """
    from sklearn.decomposition import PCA

    known = min(number, *vectors.shape)
    found = np.zeros((len(vectors), number))
    found[:, :known] = PCA(known, svd_solver="full").fit_transform(vectors.astype(np.float64))
    farthest = found[np.abs(found).argmax(axis=0), np.arange(number)]
    return found * np.where(farthest < 0, -1.0, 1.0)


def own_group_neighbours(vectors: np.ndarray, groups: np.ndarray, neighbours: int) -> np.ndarray:
    """Share of the nearest others, by cosine, in a vector's own group, (vectors,)."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=neighbours, metric="cosine", algorithm="brute")
    nearest = search.fit(vectors.astype(np.float64)).kneighbors(return_distance=False)
    return (groups[nearest] == groups[:, None]).mean(axis=1)


def chance_of_own_group(groups: np.ndarray) -> float:
    """Share of others in a vector's own group, on average: what chance gives."""
    sizes = np.bincount(groups).astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / (len(groups) * (len(groups) - 1)))


def silhouettes(vectors: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Silhouette of each vector by cosine distance, (vectors,), -1 to 1: 1 well apart, 0 not.

    Source: Rousseeuw 1987; 0 for the only one of its group. NaN with a single group.

    Args:
        vectors: (vectors, width).
        groups: (vectors,) int.
    """
    from sklearn.metrics import silhouette_samples

    distinct = len(np.unique(groups))
    if distinct in (1, len(groups)):
        return np.full(len(groups), np.nan if distinct == 1 else 0.0)
    return silhouette_samples(vectors.astype(np.float64), groups, metric="cosine")
