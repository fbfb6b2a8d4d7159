"""Masking strategies: tokens, whole words, spans of words, listed terms."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import fsum
from typing import get_args

import numpy as np

from bmtools.data.masking.corruption import MaskUnits, TokenBatch
from bmtools.errors import require, setting
from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform, uniforms
from bmtools.ragged import offsets, ranges
from bmtools.recipes.settings import Masking

MaskStrategy = Callable[[TokenBatch, float], np.ndarray]
"""Marks a share of each sample's maskable tokens, (tokens,) bool."""
LONGEST_SPAN = 10
_STOP = 0.2
# A word's rank holds 32 bits of the rank of its span and, below them, its position in the span.
_SPAN_SHIFT = np.uint64(32)
_POSITION_SHIFT = np.uint64(28)
_NONE = np.uint64((1 << 64) - 1)


def mask_tokens(text: TokenBatch, rate: float) -> np.ndarray:
    """Mask single tokens in random order until a share of each sample's tokens is masked.

    Source: Devlin et al. 2019 (BERT), section 3.1.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    begins = np.flatnonzero(text.maskable)
    units = MaskUnits(begins, np.ones_like(begins), begins.searchsorted(text.borders))
    return mask_random_units(text, units, rate)


def mask_words(text: TokenBatch, rate: float) -> np.ndarray:
    """Mask whole words in random order until a share of each sample's tokens is masked.

    Each word is as likely as any other to come next, so words of many tokens are masked as often
    as short ones. The rate is met on average, see `mask_units_by_rank`.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    return mask_random_units(text, text.words, rate)


def mask_spans(text: TokenBatch, rate: float) -> np.ndarray:
    """Mask spans of whole words in random order until a share of each sample's tokens is masked.

    A span begins at any word with the same probability and takes 1 to 10 words, 3.8 on average
    before it meets another span. Three departures from the source: a span that meets the end of
    the sample goes on at its beginning, so that every word is as likely to be masked as any other
    (in the source the first word is masked a third as often); each word begins one span at most;
    and the span that crosses the budget is cut between words, the last word masked by chance, so
    that the rate is met on average as in `mask_units_by_rank`. Runs of masked words are therefore
    somewhat shorter than the spans drawn, by the cut and at the ends, or longer, where spans
    touch. The source also replaces all tokens of a span alike; here each token draws its own
    replacement.

    Source: Joshi et al. 2020 (SpanBERT), section 3.1.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    words = text.words
    ranks = _span_ranks(_span_lengths(text), bits_per_key(text.keys, words.borders, Purpose.ORDER),
                        words.borders)
    return mask_units_by_rank(text, words, ranks, rate)


def make_strategy(name: str, terms: MaskStrategy | None = None) -> MaskStrategy:
    """Make a masking strategy.

    Args:
        name: a `Masking`.
        terms: the strategy that prefers listed terms, such as a `TermList`.

    Raises:
        ValueError: no such strategy, or no terms for it.
    """
    require(name in get_args(Masking), "masking", name, " or ".join(get_args(Masking)))
    if name == "terms":
        if terms is None:
            raise ValueError(f"{setting('masking')} terms: found no terms, "
                             f"expected {setting('terms')} as well")
        return terms
    return {"tokens": mask_tokens, "words": mask_words, "spans": mask_spans}[name]


def span_length_chances() -> list[float]:
    """List the probabilities of lengths 1 to `LONGEST_SPAN`: a truncated geometric distribution.

    Products and an exact sum, as powers may round differently on another platform.
    """
    weights = list(accumulate(range(1, LONGEST_SPAN), lambda weight, _: weight * (1 - _STOP),
                              initial=_STOP))
    total = fsum(weights)
    return [weight / total for weight in weights]


def _span_lengths(text: TokenBatch) -> np.ndarray:
    """Draw the length of the span that begins at each word, at most the words of its sample."""
    borders = text.words.borders
    drawn = to_uniform(bits_per_key(text.keys, borders, Purpose.SPAN_LENGTH))
    lengths = 1 + np.searchsorted(list(accumulate(span_length_chances()[:-1])), drawn, side="right")
    counts = borders[1:] - borders[:-1]
    return np.minimum(lengths, counts.repeat(counts))


def _span_ranks(lengths: np.ndarray, ranks: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Rank each word by the lowest-ranked span that covers it, then by its position in the span.

    A sample's words are a ring: before its first word its last ones are put once more.
    """
    before = LONGEST_SPAN - 1
    counts = borders[1:] - borders[:-1]
    firsts, sizes = borders[:-1][counts > 0], counts[counts > 0]
    begins = offsets(sizes + before)
    places = np.arange(begins[-1]) - begins[:-1].repeat(sizes + before) - before
    numbers = places % sizes.repeat(sizes + before) + firsts.repeat(sizes + before)
    codes = (ranks >> _SPAN_SHIFT << _SPAN_SHIFT)[numbers]
    lengths = lengths[numbers]
    covered = codes.copy()
    for position in range(1, min(LONGEST_SPAN, len(codes))):
        within = codes[:-position] | np.uint64(position) << _POSITION_SHIFT
        reached = np.where(lengths[:-position] > position, within, _NONE)
        np.minimum(covered[position:], reached, out=covered[position:])
    return covered[places >= 0]


def mask_random_units(text: TokenBatch, units: MaskUnits, rate: float) -> np.ndarray:
    """Mask each sample's units in random order until its budget is spent.

    Units are drawn with replacement, each as likely as any other, and repeated ones are skipped.
    At usual rates that takes far fewer random numbers than a rank for each unit, and no sorting.
    Budgets are as in `mask_units_by_rank`.

    Args:
        units: all maskable tokens of the text, in order.
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    maskable, budgets = _budgets(text, rate)
    if not len(units.begins):
        return np.zeros(len(text.ids), dtype=bool)
    firsts, counts = units.borders[:-1], units.borders[1:] - units.borders[:-1]
    # To see a share of n units takes -n log(1 - share) draws on average.
    draws = (counts * (-1.12 * np.log1p(-min(rate, 0.95))) + 12).astype(np.int64)
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
        reached = np.diff(offsets(sizes)[borders])
        enough = (reached > budgets) | (reached == maskable)
        if enough.all():
            break
        draws = np.where(enough, draws, 2 * draws)
    # The number that chose the unit crossing the budget has bits left that are used only here.
    return _mask_to_budgets(
        text, MaskUnits(units.begins.take(which), sizes, borders), budgets,
        lambda crossing: to_uniform(drawn[np.minimum(crossing, len(drawn) - 1)], 32))


def mask_units_by_rank(text: TokenBatch, units: MaskUnits, ranks: np.ndarray,
                       rate: float) -> np.ndarray:
    """Mask each sample's units from the lowest rank on until its budget is spent.

    The budget is the rate times the sample's maskable tokens. The unit that would overshoot it is
    masked with the probability that makes the expected number of masked tokens equal the budget,
    so the rate is met on average whatever the size of units. At least one unit is masked in every
    sample that has maskable tokens, as in BERT: where the first unit exceeds the budget, the rate
    is exceeded too.

    Args:
        units: all maskable tokens of the text, in order.
        ranks: (units,) uint64, drawn with `Purpose.ORDER`; of equal ones the first comes first.
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    samples = np.repeat(np.arange(len(units.borders) - 1), np.diff(units.borders))
    order = np.lexsort((ranks, samples))
    return _mask_to_budgets(
        text, MaskUnits(units.begins[order], units.sizes[order], units.borders),
        _budgets(text, rate)[1], lambda _: uniforms(text.keys, 0, Purpose.CROSSING))


def _budgets(text: TokenBatch, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the maskable tokens and the budget of each sample."""
    before = text.borders - (~text.maskable).nonzero()[0].searchsorted(text.borders)
    maskable = before[1:] - before[:-1]
    return maskable, maskable * rate


def _mask_to_budgets(text: TokenBatch, units: MaskUnits, budgets: np.ndarray,
                     draw_coins: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Mask each sample's units, in the order given, as far as its budget allows.

    Args:
        units: in the order of masking.
        budgets: (samples,) tokens.
        draw_coins: takes (samples,) numbers of the units that would overshoot the budgets; returns
            random numbers below 1 that decide whether those are masked too.
    """
    firsts, ends, spent = units.borders[:-1], units.borders[1:], offsets(units.sizes)
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
