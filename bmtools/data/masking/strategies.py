"""Masking strategies: tokens, whole words, spans of words, listed terms."""

from __future__ import annotations

from itertools import accumulate
from math import fsum
from typing import TYPE_CHECKING, Protocol, get_args

import numpy as np

from bmtools.data.masking.mask_units import MaskRates, mask_random_units, mask_units_by_rank
from bmtools.data.masking.token_batch import MaskUnits, TokenBatch
from bmtools.errors import require, setting
from bmtools.keyed_random import Purpose, bits_per_key, to_uniform
from bmtools.ragged import offsets
from bmtools.recipes.settings import Masking

if TYPE_CHECKING:
    from bmtools.data.masking.terms import TermList

LONGEST_SPAN = 10
_STOP = 0.2
# A word's rank holds 32 bits of the rank of its span and, below them, its position in the span.
_SPAN_SHIFT = np.uint64(32)
_POSITION_SHIFT = np.uint64(28)
_NONE = np.uint64((1 << 64) - 1)


class MaskStrategy(Protocol):
    """Choice of the tokens to mask."""

    def __call__(self, text: TokenBatch, rates: MaskRates) -> np.ndarray:
        """Mark a share of each sample's maskable tokens, (tokens,) bool."""


def mask_tokens(text: TokenBatch, rates: MaskRates) -> np.ndarray:
    """Mask single tokens in random order until a share of each sample's tokens is masked.

    Source: Devlin et al. 2019 (BERT), section 3.1.

    Args:
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    begins = np.flatnonzero(text.maskable)
    units = MaskUnits(begins, np.ones_like(begins), begins.searchsorted(text.borders))
    return mask_random_units(text, units, rates)


def mask_words(text: TokenBatch, rates: MaskRates) -> np.ndarray:
    """Mask whole words in random order until a share of each sample's tokens is masked.

    Each word is as likely as any other to come next, so words of many tokens are masked as often
    as short ones. The rate is met on average, see `mask_units_by_rank`.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    return mask_random_units(text, text.words, rates)


def mask_spans(text: TokenBatch, rates: MaskRates) -> np.ndarray:
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
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    words = text.words
    ranks = _span_ranks(_span_lengths(text), bits_per_key(text.keys, words.borders, Purpose.ORDER),
                        words.borders)
    return mask_units_by_rank(text, words, ranks, rates)


def make_strategy(name: str, terms: TermList | None = None) -> MaskStrategy:
    """Make a masking strategy.

    Args:
        name: a `Masking`.
        terms: for masking of terms, which prefers them.

    Raises:
        ValueError: no such strategy, or no terms for it.
    """
    require(name in get_args(Masking), "masking", name, " or ".join(get_args(Masking)))
    if name == "terms":
        if terms is None:
            raise ValueError(f"{setting('masking')} terms: found no terms, "
                             f"expected {setting('terms')} as well")
        return terms.mask
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
