"""Order of documents: a keyed permutation, and mixtures of several corpora."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.keyed_random import derive
from bmtools.recipes.phases import MixtureWeight

_ROUNDS = 6
_MOST_AT_ONCE = 8192


def permute(numbers: np.ndarray, size: int, key: int) -> np.ndarray:
    """Permute the numbers below `size`.

    A Feistel network over the next power of four, iterated until it lands inside the range; any
    number of a shuffled corpus is found at once, without the permutation in memory.

    Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", sections 3 and 5.

    Args:
        numbers: (n,) int64, 0 to size - 1.
        size: count of the numbers.
        key: of the permutation.
    """
    half = max(1, math.ceil(math.log2(max(size, 2)) / 2))
    found = _feistel(numbers.astype(np.uint64), half, key)
    outside = np.nonzero(found >= size)[0]
    while len(outside):
        found[outside] = _feistel(found[outside], half, key)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _feistel(numbers: np.ndarray, half: int, key: int) -> np.ndarray:
    bits = np.uint64(half)
    low = np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & low
    for turn in range(_ROUNDS):
        left, right = right, left ^ (derive(key, turn, right) & low)
    return (left << bits) | right


def document_numbers(draws: np.ndarray, documents: int, seed: int, corpus: int) -> np.ndarray:
    """Find the document of each draw: an epoch shows all documents once, in its own order."""
    found = np.empty(len(draws), dtype=np.int64)
    epochs, positions = np.divmod(draws, documents)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        found[inside] = permute(positions[inside], documents, int(derive(seed, 1, corpus, epoch)))
    return found


@dataclass(frozen=True)
class CorpusSize:
    """Documents and tokens of a corpus."""

    documents: int
    tokens: int


class Mixture:
    """Numbers of documents to draw from each corpus.

    Weights count tokens, so more documents are drawn from a corpus of short ones. Fractions of a
    document are carried over, so that after any number of draws each corpus is within one document
    of its share.

    Args:
        sizes: by name; corpora without a weight are not drawn.
        weights: weights and caps; empty for all corpora by their sizes.
    """

    def __init__(self, sizes: Mapping[str, CorpusSize], weights: Sequence[MixtureWeight]) -> None:
        weights = weights or [MixtureWeight(name, size.tokens) for name, size in sizes.items()]
        self._sizes = {one.corpus: sizes[one.corpus] for one in weights}
        self._weights = weights
        self._owed = {one.corpus: 0.0 for one in weights}
        self._drawn = {one.corpus: 0 for one in weights}
        # At most an epoch, in even parts.
        documents = sum(size.documents for size in self._sizes.values())
        self.window = -(-documents // -(-documents // _MOST_AT_ONCE))

    def take(self, progress: float) -> dict[str, int]:
        """Draw a window of documents, by the weights at this share of the phase.

        Empty if all corpora have reached their caps.
        """
        rates = {one.corpus: self._documents_rate(one, progress)
                 for one in self._weights if self._left(one) > 0}
        total = sum(rates.values())
        taken = {}
        for one in self._weights:
            if not rates.get(one.corpus):
                continue
            self._owed[one.corpus] += self.window * rates[one.corpus] / total
            count = min(int(self._owed[one.corpus] + 1e-9), self._left(one))
            self._owed[one.corpus] -= count
            self._drawn[one.corpus] += count
            taken[one.corpus] = count
        return taken if any(taken.values()) or not total else self.take(progress)

    def _documents_rate(self, one: MixtureWeight, progress: float) -> float:
        weight = one.weight + (one.last_weight - one.weight) * progress
        size = self._sizes[one.corpus]
        return weight * size.documents / max(size.tokens, 1)

    def _left(self, one: MixtureWeight) -> int:
        """Count the documents left up to the cap."""
        if math.isinf(one.epochs):
            return 1 << 62
        most = round(one.epochs * self._sizes[one.corpus].documents)
        return most - self._drawn[one.corpus]
