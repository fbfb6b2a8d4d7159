"""Random selection of units to mask, until a masking rate is met."""

from __future__ import annotations

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform_high, uniforms
from bmtools.masking.ragged import offsets, ranges
from bmtools.masking.token_batch import MaskUnits, TokenBatch

MaskRates = float | np.ndarray
"""A masking rate, or one for each sample, (samples,) float64."""

# The highest 64 bits that float64 can hold.
_HIGHEST = float((1 << 64) - (1 << 11))


def random_ranks(text: TokenBatch, units: MaskUnits) -> np.ndarray:
    """Draw the random ranks by which each sample's units are masked, (units,) uint64."""
    return bits_per_key(text.keys, units.borders, Purpose.ORDER)


def mask_random_units(text: TokenBatch, units: MaskUnits, rates: MaskRates) -> np.ndarray:
    """Mask each sample's units in random order until its budget is spent.

    Units are drawn with replacement, each as likely as any other, and repeated ones are skipped.
    At usual rates that takes far fewer random numbers than a rank for each unit, and no sorting.
    Budgets are as in `mask_units_by_rank`.

    Args:
        units: all maskable tokens of the text, in order.
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    rates = _checked(rates, text.samples)
    maskable = text.maskable_counts
    budgets = maskable * rates
    draws = _expected_draws(units.counts, rates)
    while True:
        borders = offsets(draws)
        drawn = bits_per_key(text.keys, borders, Purpose.ORDER)
        which = choices(drawn, units.counts.repeat(draws)).view(np.int64)
        which += units.borders[:-1].repeat(draws)
        is_new = _first_occurrences(which, len(units))
        sizes = units.sizes.take(which)
        sizes *= is_new
        spent = offsets(sizes)
        reached = _sums_within(spent, borders)
        enough = (reached > budgets) | (reached == maskable)
        if enough.all():
            break
        draws = np.where(enough, draws, 2 * draws)
    crossing = _crossings(spent, borders, budgets)
    # The number that chose the unit crossing the budget has bits left that are used only here.
    coins = to_uniform_high(drawn[np.minimum(crossing, len(drawn) - 1)]) if len(drawn) else 0.0
    chosen = ranges(borders[:-1], _count_units(spent, borders, budgets, crossing, coins))
    chosen = chosen[is_new[chosen]]
    return _mask(text, units.begins.take(which.take(chosen)), sizes.take(chosen))


def mask_units_by_rank(text: TokenBatch, units: MaskUnits, ranks: np.ndarray,
                       rates: MaskRates) -> np.ndarray:
    """Mask each sample's units from the lowest rank on until its budget is spent.

    The budget is the rate times the sample's maskable tokens. The unit that would overshoot it is
    masked with the probability that makes the expected number of masked tokens equal the budget,
    so the rate is met on average whatever the size of units. At least one unit is masked in every
    sample that has maskable tokens, as in BERT: where the first unit exceeds the budget, the rate
    is exceeded too.

    Args:
        units: all maskable tokens of the text, in order.
        ranks: (units,) uint64; of equal ones the first comes first.
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    rates = _checked(rates, text.samples)
    budgets = text.maskable_counts * rates
    early = _low_ranks(units, ranks, rates)
    first, spent = _sort(units.select(early), ranks[early])
    if not ((_sums_within(spent, first.borders) > budgets) | (first.counts == units.counts)).all():
        first, spent = _sort(units, ranks)
    crossing = _crossings(spent, first.borders, budgets)
    coins = uniforms(text.keys, 0, Purpose.CROSSING)
    chosen = ranges(first.borders[:-1],
                    _count_units(spent, first.borders, budgets, crossing, coins))
    return _mask(text, first.begins.take(chosen), first.sizes.take(chosen))


def _checked(rates: MaskRates, samples: int) -> MaskRates:
    if isinstance(rates, float) and 0 <= rates <= 1:
        return rates
    rates = np.asarray(rates, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"masking rate: found {rates}, expected 0 to 1")
    if rates.ndim and rates.shape != (samples,):
        raise ValueError(f"masking rate: found {rates.shape} rates, expected 1 or {samples}")
    return rates


def _expected_draws(counts: np.ndarray, rates: MaskRates) -> np.ndarray:
    """Estimate how many draws spend a budget, (samples,) int64; the caller draws more if needed.

    To see a share of n units takes -n log(1 - share) draws on average.
    """
    draws = (counts * (-1.12 * np.log1p(-np.minimum(rates, 0.95))) + 12).astype(np.int64)
    draws *= counts > 0
    return draws


def _first_occurrences(which: np.ndarray, count: int) -> np.ndarray:
    """Mark the first occurrence of each number below `count`, as bool."""
    positions = np.arange(len(which))
    first = np.empty(count, dtype=np.int64)
    first[which[::-1]] = positions[::-1]  # of equal numbers the last one is kept
    return first.take(which) == positions


def _sums_within(spent: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Turn running sums over all samples into the sum of each, (samples,)."""
    before = spent[borders]
    return before[1:] - before[:-1]


def _mask(text: TokenBatch, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    masked = np.zeros(len(text), dtype=bool)
    masked[ranges(begins, sizes)] = True
    return masked


def _low_ranks(units: MaskUnits, ranks: np.ndarray, rates: MaskRates) -> np.ndarray:
    """Choose units of low rank, as sorting all is slow.

    They exceed the rate by about five standard deviations, whether a sample has a hundred units
    or ten thousand; the caller sorts all units where they do not suffice.
    """
    shares = rates * 1.25 + 24 / np.maximum(units.counts, 1)
    limits = np.minimum(shares * _HIGHEST, _HIGHEST).astype(np.uint64)
    return (ranks <= limits.repeat(units.counts)).nonzero()[0]


def _sort(units: MaskUnits, ranks: np.ndarray) -> tuple[MaskUnits, np.ndarray]:
    """Sort units by sample and rank.

    Returns:
        the units, and (units + 1,) tokens before each.
    """
    order = _order(units, ranks)
    ordered = MaskUnits(units.begins[order], units.sizes[order], units.borders)
    return ordered, offsets(ordered.sizes)


def _order(units: MaskUnits, ranks: np.ndarray) -> np.ndarray:
    """Order units by sample, then by rank; ties keep their order.

    Sorting one array of integers is several times faster than np.lexsort, so the sample, the
    highest bits of the rank and the number of the unit are packed into one, unless ranks tie.
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
        spent: (units + 1,) tokens before each, in the order of masking.
        borders: (samples + 1,) where each sample's units begin in that order.
    """
    # Integers are compared: a float sum of a sample's budget and the tokens before it would
    # round differently among other samples.
    return spent.searchsorted(spent[borders[:-1]] + budgets.astype(np.int64), side="right") - 1


def _count_units(spent: np.ndarray, borders: np.ndarray, budgets: np.ndarray, crossing: np.ndarray,
              coins: np.ndarray | float) -> np.ndarray:
    """Count the units that each sample's budget allows, (samples,) int64.

    Args:
        spent, borders, budgets: as `_crossings` takes them.
        crossing: its result.
        coins: (samples,) random numbers below 1 that decide whether that unit is masked too.
    """
    firsts = borders[:-1]
    reached = spent[crossing]
    size = spent[np.minimum(crossing + 1, len(spent) - 1)] - reached
    left = budgets - (reached - spent[firsts])
    at_least = (borders[1:] > firsts) & (budgets > 0)
    return np.maximum(crossing - firsts + (coins * size < left), at_least)
