"""Order of documents: a keyed permutation, and mixtures of several corpora."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bmtools.keyed_random import derive

_ROUNDS = 6
_WINDOW_TOKENS, _MOST_AT_ONCE = 1 << 21, 1 << 15
"""Tokens, about, and most documents of a window: planned in 0.1 s, by what is cut and shuffled."""


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


class Mixture:
    """Numbers of documents to draw from each corpus.

    Weights count tokens, so more documents are drawn from a corpus of short ones. Fractions of a
    document are carried over, so that after any number of draws each corpus is within one document
    of its share.

    Args:
        sizes: documents and tokens of each corpus, by name; those without a weight are not drawn.
        weights: by name; empty for all corpora by their tokens.
        owed: fractions of a document carried over, by name.
    """

    def __init__(self, sizes: Mapping[str, tuple[int, int]], weights: Mapping[str, float],
                 owed: Mapping[str, float] | None = None) -> None:
        weights = weights or {name: tokens for name, (_, tokens) in sizes.items()}
        rates = {name: weight * sizes[name][0] / max(sizes[name][1], 1)
                 for name, weight in weights.items()}
        total = sum(rates.values())
        # A window has about so many tokens, and is at most an epoch, in even parts.
        most = min(max(int(_WINDOW_TOKENS / max(sum(weights.values()) / total, 1)), 1),
                   _MOST_AT_ONCE)
        documents = sum(sizes[name][0] for name in weights)
        self.window = -(-documents // -(-documents // most))
        self._shares = {name: self.window * rate / total for name, rate in rates.items() if rate}
        self.owed = {name: (owed or {}).get(name, 0.0) for name in weights}

    def take(self) -> dict[str, int]:
        """Draw a window of documents."""
        taken = {}
        for name, share in self._shares.items():
            self.owed[name] += share
            taken[name] = int(self.owed[name] + 1e-9)
            self.owed[name] -= taken[name]
        return taken if any(taken.values()) else self.take()
