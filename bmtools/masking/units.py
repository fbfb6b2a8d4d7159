"""What is hidden together, and how much of it a masking rate allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bmtools.masking.dice import Purpose, series, uniforms
from bmtools.masking.text import Text

Rates = float | np.ndarray

# The highest 64 bits that float64 can hold.
_HIGHEST = float((1 << 64) - (1 << 11))


@dataclass(frozen=True, eq=False)
class Units:
    """Runs of maskable tokens that are hidden together or not at all.

    Args:
        begins: (units,) first token of each.
        sizes: (units,) tokens of each, 1 or more.
        borders: (samples + 1,) where each sample's units begin among all, and where the last
            one's end.
    """

    begins: np.ndarray
    sizes: np.ndarray
    borders: np.ndarray

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def counts(self) -> np.ndarray:
        """(samples,) units of each sample."""
        return self.borders[1:] - self.borders[:-1]

    def some(self, which: np.ndarray) -> Units:
        """Keep some units, by their numbers, rising."""
        return Units(self.begins[which], self.sizes[which],
                     which.searchsorted(self.borders))


def words_of(text: Text) -> Units:
    """Find the words of a text.

    A word also begins after a special token and at the beginning of a sample, so that a word cut
    by an edge stays whole.
    """
    inner = np.zeros(len(text) + 1, dtype=bool)
    np.greater(text.maskable[1:] & text.maskable[:-1], text.starts[1:], out=inner[1:-1])
    inner[text.borders] = False
    edges = (~inner).nonzero()[0]
    begins, sizes = edges[:-1], edges[1:] - edges[:-1]
    maskable = text.maskable[begins]
    begins = begins[maskable]
    return Units(begins, sizes[maskable], text.borders_among(begins))


def random_ranks(text: Text, units: Units) -> np.ndarray:
    """Draw the ranks by which each sample's units are hidden, (units,) uint64."""
    return series(text.keys, units.borders, Purpose.ORDER)


def take(text: Text, units: Units, ranks: np.ndarray, rates: Rates) -> np.ndarray:
    """Hide each sample's units from the lowest rank on until its budget is spent.

    The budget is the rate times the sample's maskable tokens. The unit that would overshoot it is
    taken with the probability that makes the expected number of hidden tokens equal the budget,
    so the rate is met on average whatever the size of units. A sample with anything to hide gets
    one unit at least, as in BERT: where the first unit is more than the budget, more than the
    rate is hidden.

    Args:
        units: together all maskable tokens of the text, in order.
        ranks: (units,) uint64; of equal ones the first comes first.
        rates: share of maskable tokens to hide, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    rates = _checked(rates, text.samples)
    budgets = text.maskable_counts * rates
    early = _early(units, ranks, rates)
    first, spent = _ordered(units.some(early), ranks[early])
    before = spent[first.borders]
    if not ((before[1:] - before[:-1] > budgets) | (first.counts == units.counts)).all():
        first, spent = _ordered(units, ranks)
    chosen = ranges(first.borders[:-1], _how_many(text, first, spent, budgets))
    picked = np.zeros(len(text), dtype=bool)
    picked[ranges(first.begins[chosen], first.sizes[chosen])] = True
    return picked


def summed(counts: np.ndarray) -> np.ndarray:
    """Sum all counts that come before each, and at the end all: one number more than counts."""
    sums = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Count up from each beginning, as far as its length says, all of them in one array."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return (begins - ends + lengths).repeat(lengths) + np.arange(total)


def _checked(rates: Rates, samples: int) -> np.ndarray:
    rates = np.asarray(rates, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"masking rate: found {rates}, expected 0 to 1")
    if rates.ndim and rates.shape != (samples,):
        raise ValueError(f"masking rate: found {rates.shape} rates, expected 1 or {samples}")
    return rates


def _early(units: Units, ranks: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Choose units of low rank, as sorting all is slow.

    They are more than the rate asks for by about five standard deviations, whether a sample has
    a hundred units or ten thousand; `take` looks whether they suffice.
    """
    shares = rates * 1.25 + 24 / np.maximum(units.counts, 1)
    limits = np.minimum(shares * _HIGHEST, _HIGHEST).astype(np.uint64)
    return (ranks <= limits.repeat(units.counts)).nonzero()[0]


def _ordered(units: Units, ranks: np.ndarray) -> tuple[Units, np.ndarray]:
    """Sort units by sample and rank.

    Returns:
        the units, and (units + 1,) how many tokens stand before each.
    """
    order = _order(units, ranks)
    ordered = Units(units.begins[order], units.sizes[order], units.borders)
    return ordered, summed(ordered.sizes)


def _order(units: Units, ranks: np.ndarray) -> np.ndarray:
    """Number units by sample, then by rank; those that tie stay as they are.

    Whole numbers are sorted several times faster than what they stand for, so a sample, the
    highest bits of a rank and the place of its unit go into one, unless such ranks tie.
    """
    samples = len(units.counts)
    low, high = len(units).bit_length(), 64 - samples.bit_length()
    if low < high:
        begins = np.arange(samples, dtype=np.uint64) << np.uint64(high)
        keys = begins.repeat(units.counts)
        keys |= ranks >> np.uint64(64 - high + low) << np.uint64(low)
        keys |= np.arange(len(keys), dtype=np.uint64)
        keys.sort()
        if (keys[1:] ^ keys[:-1] >= np.uint64(1 << low)).all():
            return (keys & np.uint64((1 << low) - 1)).view(np.int64)
    return np.lexsort((ranks, np.repeat(np.arange(samples), units.counts)))


def _how_many(text: Text, units: Units, spent: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """Count the units that each sample's budget takes, the one that crosses it by chance.

    Args:
        units: in the order in which they are taken.
        spent: (units + 1,) how many tokens stand before each.

    Returns:
        (samples,) int64.
    """
    firsts = units.borders[:-1]
    before = spent[firsts]
    # Whole numbers are compared, as the sum of a sample's budget and of what stands before it
    # would round differently among other samples.
    crossing = spent.searchsorted(before + budgets.astype(np.int64), side="right") - 1
    left = budgets - (spent[crossing] - before)
    size = spent[np.minimum(crossing + 1, len(units))] - spent[crossing]
    coins = uniforms(text.keys, 0, Purpose.CROSSING)
    at_least = np.minimum(units.counts, 1) * (budgets > 0)
    return np.maximum(crossing - firsts + (coins * size < left), at_least)
