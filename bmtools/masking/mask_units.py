"""What is hidden together, and how much of it a masking rate allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform_high, uniforms
from bmtools.masking.token_batch import TokenBatch

Rates = float | np.ndarray

# The highest 64 bits that float64 can hold.
_HIGHEST = float((1 << 64) - (1 << 11))


@dataclass(frozen=True, eq=False)
class MaskUnits:
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

    def some(self, which: np.ndarray) -> MaskUnits:
        """Keep some units, by their numbers, rising."""
        return MaskUnits(self.begins[which], self.sizes[which],
                         which.searchsorted(self.borders))


def find_words(text: TokenBatch) -> MaskUnits:
    """Find the words of a text.

    A word also begins after a special token and at the beginning of a sample, so that a word cut
    by an edge stays whole.
    """
    maskable = text.maskable
    apart = np.ones(len(text) + 1, dtype=bool)  # from the token before
    np.less_equal(maskable[1:] & maskable[:-1], text.starts[1:], out=apart[1:-1])
    apart[text.borders] = True
    begins = (apart[:-1] & maskable).nonzero()[0]
    sizes = (apart[1:] & maskable).nonzero()[0]
    sizes -= begins
    sizes += 1
    return MaskUnits(begins, sizes, text.borders_among(begins))


def random_ranks(text: TokenBatch, units: MaskUnits) -> np.ndarray:
    """Draw the ranks by which each sample's units are hidden, (units,) uint64."""
    return bits_per_key(text.keys, units.borders, Purpose.ORDER)


def draw_units(text: TokenBatch, units: MaskUnits, rates: Rates) -> np.ndarray:
    """Hide each sample's units in random order until its budget is spent, as `take_units` does.

    The order comes from drawing a sample's units again and again, each as likely as any other:
    what was drawn before is passed over. At usual rates that takes far fewer random numbers than
    a rank for each unit, and no sorting.

    Args:
        units: together all maskable tokens of the text, in order.
        rates: share of maskable tokens to hide, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    rates = _checked(rates, text.samples)
    maskable = text.maskable_counts
    budgets = maskable * rates
    draws = _likely_draws(units.counts, rates)
    while True:
        borders = summed(draws)
        drawn = bits_per_key(text.keys, borders, Purpose.ORDER)
        which = choices(drawn, units.counts.repeat(draws)).view(np.int64)
        which += units.borders[:-1].repeat(draws)
        is_new = _first_seen(which, len(units))
        sizes = units.sizes.take(which)
        sizes *= is_new
        spent = summed(sizes)
        found = _within(spent, borders)
        enough = (found > budgets) | (found == maskable)
        if enough.all():
            break
        draws = np.where(enough, draws, 2 * draws)
    crossing = _crossings(spent, borders, budgets)
    # What chose the unit that crosses the budget has bits left that nothing else depends on.
    coins = to_uniform_high(drawn[np.minimum(crossing, len(drawn) - 1)]) if len(drawn) else 0.0
    chosen = ranges(borders[:-1], _how_many(spent, borders, budgets, crossing, coins))
    chosen = chosen[is_new[chosen]]
    return _marked(text, units.begins.take(which.take(chosen)), sizes.take(chosen))


def take_units(text: TokenBatch, units: MaskUnits, ranks: np.ndarray, rates: Rates) -> np.ndarray:
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
    if not ((_within(spent, first.borders) > budgets) | (first.counts == units.counts)).all():
        first, spent = _ordered(units, ranks)
    crossing = _crossings(spent, first.borders, budgets)
    coins = uniforms(text.keys, 0, Purpose.CROSSING)
    chosen = ranges(first.borders[:-1],
                    _how_many(spent, first.borders, budgets, crossing, coins))
    return _marked(text, first.begins.take(chosen), first.sizes.take(chosen))


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


def _checked(rates: Rates, samples: int) -> Rates:
    if isinstance(rates, float) and 0 <= rates <= 1:
        return rates
    rates = np.asarray(rates, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"masking rate: found {rates}, expected 0 to 1")
    if rates.ndim and rates.shape != (samples,):
        raise ValueError(f"masking rate: found {rates.shape} rates, expected 1 or {samples}")
    return rates


def _likely_draws(counts: np.ndarray, rates: Rates) -> np.ndarray:
    """Say how many draws spend most budgets, (samples,) int64; `draw_units` looks whether they do.

    To see a share of n units takes -n log(1 - share) draws on average.
    """
    draws = (counts * (-1.12 * np.log1p(-np.minimum(rates, 0.95))) + 12).astype(np.int64)
    draws *= counts > 0
    return draws


def _first_seen(which: np.ndarray, count: int) -> np.ndarray:
    """Tell where each number below `count` stands for the first time, as bool."""
    places = np.arange(len(which))
    first = np.empty(count, dtype=np.int64)
    first[which[::-1]] = places[::-1]  # of equal numbers the last one stays
    return first.take(which) == places


def _within(spent: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Sum each sample's own, (samples,), of sums over all."""
    before = spent[borders]
    return before[1:] - before[:-1]


def _marked(text: TokenBatch, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    picked = np.zeros(len(text), dtype=bool)
    picked[ranges(begins, sizes)] = True
    return picked


def _early(units: MaskUnits, ranks: np.ndarray, rates: Rates) -> np.ndarray:
    """Choose units of low rank, as sorting all is slow.

    They are more than the rate asks for by about five standard deviations, whether a sample has
    a hundred units or ten thousand; `take_units` looks whether they suffice.
    """
    shares = rates * 1.25 + 24 / np.maximum(units.counts, 1)
    limits = np.minimum(shares * _HIGHEST, _HIGHEST).astype(np.uint64)
    return (ranks <= limits.repeat(units.counts)).nonzero()[0]


def _ordered(units: MaskUnits, ranks: np.ndarray) -> tuple[MaskUnits, np.ndarray]:
    """Sort units by sample and rank.

    Returns:
        the units, and (units + 1,) how many tokens stand before each.
    """
    order = _order(units, ranks)
    ordered = MaskUnits(units.begins[order], units.sizes[order], units.borders)
    return ordered, summed(ordered.sizes)


def _order(units: MaskUnits, ranks: np.ndarray) -> np.ndarray:
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


def _crossings(spent: np.ndarray, borders: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """Find the unit that would overshoot each sample's budget, (samples,) int64.

    Args:
        spent: (units + 1,) how many tokens stand before each, in the order of taking.
        borders: (samples + 1,) where each sample's units begin in that order.
    """
    # Whole numbers are compared, as the sum of a sample's budget and of what stands before it
    # would round differently among other samples.
    return spent.searchsorted(spent[borders[:-1]] + budgets.astype(np.int64), side="right") - 1


def _how_many(spent: np.ndarray, borders: np.ndarray, budgets: np.ndarray, crossing: np.ndarray,
              coins: np.ndarray | float) -> np.ndarray:
    """Count the units that each sample's budget takes, (samples,) int64.

    Args:
        spent, borders, budgets: as `_crossings` takes them.
        crossing: what that found.
        coins: (samples,) from 0 to less than 1: whether that unit is taken too.
    """
    firsts = borders[:-1]
    reached = spent[crossing]
    size = spent[np.minimum(crossing + 1, len(spent) - 1)] - reached
    left = budgets - (reached - spent[firsts])
    at_least = (borders[1:] > firsts) & (budgets > 0)
    return np.maximum(crossing - firsts + (coins * size < left), at_least)
