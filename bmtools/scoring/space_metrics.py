"""Isotropy of vectors and separation of vector groups, in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UnitVectorSums:
    """Unit vectors of occurrences, summed by word, to compute all mean cosines.

    Args:
        totals: (words, width) float64.
        sizes: (words,) float64, number of occurrences.
    """

    totals: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray, words: np.ndarray, count: int) -> UnitVectorSums:
        """Sum (occurrences, width) vectors by word, (occurrences,), from 0 to count - 1.

        Each vector is scaled to length 1 in float64; zero vectors are not changed.
        """
        from sklearn.preprocessing import normalize

        totals = np.zeros((count, vectors.shape[1]))
        np.add.at(totals, words, normalize(vectors.astype(np.float64)))
        return cls(totals, np.bincount(words, minlength=count).astype(np.float64))

    def average_cosine(self, weights: np.ndarray) -> np.ndarray:
        """Average the cosine between occurrences of different words: 0 isotropic, 1 identical.

        Source: Ethayarajh 2019, section 3.4, which samples 1,000 pairs; all pairs are used here, as
        the square of the sum minus the squares within words.

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
        """Average the cosine between a word's occurrences, (words,); NaN for a single occurrence.

        Source: Ethayarajh 2019, definition 1.
        """
        pairs = self.sizes * (self.sizes - 1)
        sums = np.square(self.totals).sum(axis=1) - self.sizes
        return np.divide(sums, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def partition_isotropy(vectors: np.ndarray) -> float:
    """Return min / max of sums over exp(c.w) for eigenvectors c of W'W; 1 is isotropic.

    As in the paper, vectors are not centred or scaled. The sign of an eigenvector is arbitrary, so
    both signs are tried. This departs from the paper and makes the result depend only on the
    vectors.

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

    The sign of a component is arbitrary; here the coordinate with the largest size is positive.
    """
    from sklearn.decomposition import PCA

    known = min(number, *vectors.shape)
    found = np.zeros((len(vectors), number))
    found[:, :known] = PCA(known, svd_solver="full").fit_transform(vectors.astype(np.float64))
    farthest = found[np.abs(found).argmax(axis=0), np.arange(number)]
    return found * np.where(farthest < 0, -1.0, 1.0)


def own_group_neighbours(vectors: np.ndarray, groups: np.ndarray, neighbours: int) -> np.ndarray:
    """Return the share of the nearest others, by cosine, in a vector's own group, (vectors,)."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=neighbours, metric="cosine", algorithm="brute")
    nearest = search.fit(vectors.astype(np.float64)).kneighbors(return_distance=False)
    return (groups[nearest] == groups[:, None]).mean(axis=1)


def chance_of_own_group(groups: np.ndarray) -> float:
    """Return the mean share of other vectors that are in a vector's own group: the chance level."""
    sizes = np.bincount(groups).astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / (len(groups) * (len(groups) - 1)))


def silhouettes(vectors: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Compute each vector's silhouette by cosine distance, (vectors,), from -1 to 1 (separated).

    Source: Rousseeuw 1987; 0 for the only vector in its group, and NaN if there is one group.

    Args:
        vectors: (vectors, width).
        groups: (vectors,) int.
    """
    from sklearn.metrics import silhouette_samples

    distinct = len(np.unique(groups))
    if distinct in (1, len(groups)):
        return np.full(len(groups), np.nan if distinct == 1 else 0.0)
    return silhouette_samples(vectors.astype(np.float64), groups, metric="cosine")
