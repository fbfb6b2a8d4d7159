"""Which document comes when: a keyed permutation of numbers, and shares of several corpora."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.keyed_random import derive
from bmtools.recipes.phases import MixtureWeight

_ROUNDS = 6


def permute(numbers: np.ndarray, size: int, key: int) -> np.ndarray:
    """Send each number below `size` to another one, no two to the same.

    A Feistel network over the next power of four, walked until it lands inside; any number of a
    shuffled corpus is found at once, without the shuffle in memory.

    Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", sections 3 and 5.

    Args:
        numbers: (n,) int64, 0 to size - 1.
        size: how many numbers there are.
        key: which of the permutations.
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
    """Name the document of each draw: every epoch shows each document once, in its own order."""
    found = np.empty(len(draws), dtype=np.int64)
    epochs, places = np.divmod(draws, documents)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        found[inside] = permute(places[inside], documents, int(derive(seed, 1, corpus, epoch)))
    return found


@dataclass(frozen=True)
class CorpusSize:
    """What is known of a corpus before it is drawn from: documents, and tokens in all."""

    documents: int
    tokens: int


class Mixture:
    """How many documents of each corpus come next.

    Weights count tokens, so a corpus of short documents gives more of them. Fractions of a
    document are carried on, so that after any number of draws each corpus is within one document
    of its share.

    Args:
        stocks: by name; a corpus that no portion names gives nothing.
        portions: weights and caps; none at all means every corpus by its size.
    """

    def __init__(self, stocks: Mapping[str, CorpusSize], portions: Sequence[MixtureWeight]) -> None:
        portions = portions or [MixtureWeight(name, stock.tokens) for name, stock in stocks.items()]
        self._stocks = {portion.corpus: stocks[portion.corpus] for portion in portions}
        self._portions = portions
        self._owed = {portion.corpus: 0.0 for portion in portions}
        self._drawn = {portion.corpus: 0 for portion in portions}
        self.window = _window([stock.documents for stock in self._stocks.values()])

    @property
    def tokens(self) -> int:
        """Tokens of all corpora in it."""
        return sum(stock.tokens for stock in self._stocks.values())

    def take(self, progress: float) -> dict[str, int]:
        """Draw a window's worth of documents, as weights are after this share of the phase.

        Empty where every corpus has reached its cap.
        """
        rates = {portion.corpus: self._documents_rate(portion, progress)
                 for portion in self._portions if self._room(portion) > 0}
        total = sum(rates.values())
        taken = {}
        for portion in self._portions:
            if not rates.get(portion.corpus):
                continue
            self._owed[portion.corpus] += self.window * rates[portion.corpus] / total
            count = min(int(self._owed[portion.corpus] + 1e-9), self._room(portion))
            self._owed[portion.corpus] -= count
            self._drawn[portion.corpus] += count
            taken[portion.corpus] = count
        return taken if any(taken.values()) or not total else self.take(progress)

    def _documents_rate(self, portion: MixtureWeight, progress: float) -> float:
        end = portion.weight if portion.end_weight is None else portion.end_weight
        weight = portion.weight + (end - portion.weight) * progress
        stock = self._stocks[portion.corpus]
        return weight * stock.documents / max(stock.tokens, 1)

    def _room(self, portion: MixtureWeight) -> int:
        """Documents that its cap leaves."""
        if math.isinf(portion.epochs):
            return 1 << 62
        most = round(portion.epochs * self._stocks[portion.corpus].documents)
        return most - self._drawn[portion.corpus]


def _window(documents: Sequence[int]) -> int:
    """Documents drawn at a time: at most one epoch, so that none comes twice, in even parts."""
    total = sum(documents)
    return -(-total // -(-total // _MOST_AT_ONCE))


_MOST_AT_ONCE = 8192
