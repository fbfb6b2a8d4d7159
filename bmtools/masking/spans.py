"""Masking of spans of words."""

from __future__ import annotations

from itertools import accumulate
from math import fsum

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, to_uniform
from bmtools.masking.mask_units import MaskUnits, Rates, find_words, random_ranks, take_units
from bmtools.masking.token_batch import TokenBatch

LONGEST = 10
_STOP = 0.2
# A word's rank holds 32 bits of the rank of its span and, below them, its place in the span.
_SPAN_SHIFT = np.uint64(32)
_PLACE_SHIFT = np.uint64(28)
_NONE = np.uint64((1 << 64) - 1)


def mask_spans(text: TokenBatch, rates: Rates) -> np.ndarray:
    """Pick spans of whole words in random order until a share of each sample's tokens is picked.

    A span begins at any word with the same probability and takes 1 to 10 words, 3.8 on average
    before it meets the end of the sample, a special token or another span. Two departures from
    the source: each word begins one span at most, and the span that crosses the budget is cut
    between words, the last word taken by chance, so that the rate is met on average as in
    `take_units`. Runs of hidden words are therefore somewhat shorter than spans drawn, by the
    cut, or longer, where spans touch. The source also gives all tokens of a span one fate; here
    each token draws its own.

    Source: Joshi et al. 2020 (SpanBERT), section 3.1.

    Args:
        rates: share of maskable tokens to pick, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    words = find_words(text)
    return take_units(text, words, _first_covered(words, _lengths(text, words),
                                                  random_ranks(text, words)), rates)


def chances() -> list[float]:
    """Probabilities of the lengths 1 to `LONGEST`: geometric, those above left out.

    Products and an exact sum, as powers may round differently on another platform.
    """
    weights = list(accumulate(range(1, LONGEST), lambda weight, _: weight * (1 - _STOP),
                              initial=_STOP))
    total = fsum(weights)
    return [weight / total for weight in weights]


def _lengths(text: TokenBatch, words: MaskUnits) -> np.ndarray:
    """Draw the length in words of the span that begins at each word, ended by its surroundings."""
    drawn = to_uniform(bits_per_key(text.keys, words.borders, Purpose.SPAN_LENGTH))
    lengths = 1 + np.searchsorted(list(accumulate(chances()[:-1])), drawn, side="right")
    numbers = np.arange(len(words))
    apart = np.ones(len(words) + 1, dtype=bool)
    apart[1:-1] = words.begins[1:] != (words.begins + words.sizes)[:-1]
    apart[words.borders] = True
    ends = np.flatnonzero(apart)
    run_ends = np.repeat(ends[1:], ends[1:] - ends[:-1])
    return np.minimum(lengths, run_ends - numbers)


def _first_covered(words: MaskUnits, lengths: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Rank each word by the span of lowest rank that covers it, and within that by its place."""
    codes = ranks >> _SPAN_SHIFT << _SPAN_SHIFT
    covered = codes.copy()
    for place in range(1, min(LONGEST, len(words))):
        within = codes[:-place] | np.uint64(place) << _PLACE_SHIFT
        reached = np.where(lengths[:-place] > place, within, _NONE)
        np.minimum(covered[place:], reached, out=covered[place:])
    return covered
