"""Random selection of units to mask, until a masking rate is met."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bmtools.data.masking.token_batch import MaskUnits, TokenBatch
from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform, uniforms
from bmtools.ragged import offsets, ranges

MaskRates = float | np.ndarray
"""A masking rate, or one for each sample, (samples,) float64."""

# The highest 64 bits that float64 can hold.
_HIGHEST = float((1 << 64) - (1 << 11))


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
    rates, maskable, budgets = _budgets(text, rates)
    if not len(units.begins):
        return np.zeros(len(text.ids), dtype=bool)
    firsts, counts = units.borders[:-1], units.borders[1:] - units.borders[:-1]
    # To see a share of n units takes -n log(1 - share) draws on average.
    draws = (counts * (-1.12 * np.log1p(-np.minimum(rates, 0.95))) + 12).astype(np.int64)
    draws *= counts > 0
    while True:
        borders = offsets(draws)
        drawn = bits_per_key(text.keys, borders, Purpose.ORDER)
        which = choices(drawn, counts.repeat(draws)).view(np.int64)
        which += firsts.repeat(draws)
        positions = np.arange(len(which))
        first_drawn = np.empty(len(units.begins), dtype=np.int64)
        first_drawn[which[::-1]] = positions[::-1]  # of equal numbers the last one is kept
        sizes = units.sizes.take(which)
        sizes *= first_drawn.take(which) == positions
        spent = offsets(sizes)
        before = spent[borders]
        reached = before[1:] - before[:-1]
        enough = (reached > budgets) | (reached == maskable)
        if enough.all():
            break
        draws = np.where(enough, draws, 2 * draws)
    # The number that chose the unit crossing the budget has bits left that are used only here.
    return _mask_to_budgets(
        text, MaskUnits(units.begins.take(which), sizes, borders), spent, budgets,
        lambda crossing: to_uniform(drawn[np.minimum(crossing, len(drawn) - 1)], 32))


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
        ranks: (units,) uint64, drawn with `Purpose.ORDER`; of equal ones the first comes first.
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    rates, maskable, budgets = _budgets(text, rates)
    counts = units.borders[1:] - units.borders[:-1]
    # Units of low rank suffice, as a rule; to sort all is slow. They exceed the rate by about five
    # standard deviations, whether a sample has a hundred units or ten thousand.
    shares = rates * 1.25 + 24 / np.maximum(counts, 1)
    limits = np.minimum(shares * _HIGHEST, _HIGHEST).astype(np.uint64)
    chosen = (ranks <= limits.repeat(counts)).nonzero()[0]
    while True:
        borders = chosen.searchsorted(units.borders)
        order = chosen[_order(ranks[chosen], borders)]
        spent = offsets(units.sizes[order])
        before = spent[borders]
        reached = before[1:] - before[:-1]
        if ((reached > budgets) | (reached == maskable)).all():
            break
        chosen = np.arange(len(ranks))
    return _mask_to_budgets(
        text, MaskUnits(units.begins[order], units.sizes[order], borders), spent, budgets,
        lambda _: uniforms(text.keys, 0, Purpose.CROSSING))


def _budgets(text: TokenBatch, rates: MaskRates) -> tuple[MaskRates, np.ndarray, np.ndarray]:
    """Check rates; return them, and the maskable tokens and the budget of each sample."""
    if not (isinstance(rates, float) and 0 <= rates <= 1):
        rates, samples = np.asarray(rates, dtype=np.float64), len(text.keys)
        if not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError(f"masking rate: found {rates}, expected 0 to 1")
        if rates.ndim and rates.shape != (samples,):
            raise ValueError(f"masking rate: found {rates.shape} rates, expected 1 or {samples}")
    before = text.borders - (~text.maskable).nonzero()[0].searchsorted(text.borders)
    maskable = before[1:] - before[:-1]
    return rates, maskable, maskable * rates


def _order(ranks: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Order units by sample, then by rank; ties keep their order.

    Sorting one array of integers is several times faster than np.lexsort, so the sample, the
    highest bits of the rank and the number of the unit are packed into one, unless ranks tie.
    """
    samples, counts = len(borders) - 1, borders[1:] - borders[:-1]
    low, high = len(ranks).bit_length(), 64 - samples.bit_length()
    if low < high:
        begins = np.arange(samples, dtype=np.uint64) << np.uint64(high)
        keys = begins.repeat(counts)
        keys |= ranks >> np.uint64(64 - high + low) << np.uint64(low)
        keys |= np.arange(len(keys), dtype=np.uint64)
        keys.sort()
        if (keys[1:] ^ keys[:-1] >= np.uint64(1 << low)).all():
            return (keys & np.uint64((1 << low) - 1)).view(np.int64)
    return np.lexsort((ranks, np.repeat(np.arange(samples), counts)))


def _mask_to_budgets(text: TokenBatch, units: MaskUnits, spent: np.ndarray, budgets: np.ndarray,
                     draw_coins: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Mask each sample's units, in the order given, as far as its budget allows.

    Args:
        units: in the order of masking.
        spent: (units + 1,) tokens before each.
        budgets: (samples,) tokens.
        draw_coins: takes (samples,) numbers of the units that would overshoot the budgets; returns
            random numbers below 1 that decide whether those are masked too.
    """
    firsts, ends = units.borders[:-1], units.borders[1:]
    # Integers are compared: a float sum of a sample's budget and the tokens before it would
    # round differently among other samples.
    crossing = spent.searchsorted(spent[firsts] + budgets.astype(np.int64), side="right") - 1
    reached = spent[crossing]
    size = spent[np.minimum(crossing + 1, len(spent) - 1)] - reached
    left = budgets - (reached - spent[firsts])
    at_least = (ends > firsts) & (budgets > 0)
    masked_too = draw_coins(crossing) * size < left
    chosen = ranges(firsts, np.maximum(crossing - firsts + masked_too, at_least))
    masked = np.zeros(len(text.ids), dtype=bool)
    masked[ranges(units.begins.take(chosen), units.sizes.take(chosen))] = True
    return masked
