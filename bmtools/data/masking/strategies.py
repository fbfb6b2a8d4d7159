"""Masking strategies: tokens, whole words, spans of words, listed terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import fsum
from typing import TYPE_CHECKING, get_args

import numpy as np

from bmtools.data.masking.corruption import MaskUnits, TokenBatch
from bmtools.errors import require, setting
from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform, uniforms
from bmtools.ragged import offsets, ranges
from bmtools.recipes.settings import Masking

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

MaskStrategy = Callable[[TokenBatch, float], np.ndarray]
"""Function that marks a share of each sample's maskable tokens, (tokens,) bool."""
# Texts before a term: empty, a space, and signs that tokenizers treat differently.
_LEADS = ("", "a ", "a(", "a'", "a°", "a °")
LONGEST_SPAN = 10
_STOP = 0.2
# A word's rank consists of 32 bits of its span's rank and, below them, its position in the span.
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

    All words have the same probability to be next, so words of many tokens are masked as often as
    short words. The rate is met on average, see `mask_units_by_rank`.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.

    Returns:
        (tokens,) bool.
    """
    return mask_random_units(text, text.words, rate)


def mask_spans(text: TokenBatch, rate: float) -> np.ndarray:
    """Mask spans of whole words in random order until a share of each sample's tokens is masked.

    A span begins at any word with the same probability and contains 1 to 10 words, 3.8 on average
    before it meets another span. There are four departures from the source. A span that reaches the
    end of the sample continues at its start, so that every word has the same probability to be
    masked (in the source the first word is masked a third as often). Each word begins at most one
    span. The span that exceeds the budget is cut between words, with its last word masked at
    random, so that the rate is met on average as in `mask_units_by_rank`. Runs of masked words are
    therefore somewhat shorter than the sampled spans, because of cuts and ends of samples, or
    longer, if spans touch. The source replaces all tokens of a span in the same way, but here each
    token gets its own replacement.

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
        ValueError: the strategy is unknown, or its terms are missing.
    """
    require(name in get_args(Masking), "masking", name, " or ".join(get_args(Masking)))
    if name == "terms":
        if terms is None:
            raise ValueError(f"{setting('masking', 'terms')}: found no terms, "
                             f"expected {setting('terms')} as well")
        return terms
    return {"tokens": mask_tokens, "words": mask_words, "spans": mask_spans}[name]


def span_length_chances() -> list[float]:
    """List the probabilities of lengths 1 to `LONGEST_SPAN`: a truncated geometric distribution.

    Products and an exact sum are used, because powers may round differently on other platforms.
    """
    weights = list(accumulate(range(1, LONGEST_SPAN), lambda weight, _: weight * (1 - _STOP),
                              initial=_STOP))
    total = fsum(weights)
    return [weight / total for weight in weights]


def _span_lengths(text: TokenBatch) -> np.ndarray:
    """Sample the length of the span that begins at each word, up to the words of its sample."""
    borders = text.words.borders
    drawn = to_uniform(bits_per_key(text.keys, borders, Purpose.SPAN_LENGTH))
    lengths = 1 + np.searchsorted(list(accumulate(span_length_chances()[:-1])), drawn, side="right")
    counts = borders[1:] - borders[:-1]
    return np.minimum(lengths, counts.repeat(counts))


def _span_ranks(lengths: np.ndarray, ranks: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Rank each word by the lowest-ranked span that covers it, then by its position in the span.

    A sample's words form a ring: its last words are repeated before its first word.
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

    Units are sampled with replacement and equal probability, and repeated units are skipped. At
    usual rates this needs far fewer random numbers than a rank for each unit, and no sorting.
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
    # On average, -n log(1 - share) draws reach a share of n units.
    draws = (counts * (-1.12 * np.log1p(-min(rate, 0.95))) + 12).astype(np.int64)
    draws *= counts > 0
    while True:
        borders = offsets(draws)
        drawn = bits_per_key(text.keys, borders, Purpose.ORDER)
        which = choices(drawn, counts.repeat(draws)).view(np.int64)
        which += firsts.repeat(draws)
        positions = np.arange(len(which))
        first_drawn = np.empty(len(units.begins), dtype=np.int64)
        first_drawn[which[::-1]] = positions[::-1]  # the last of equal numbers is kept
        sizes = units.sizes.take(which)
        sizes *= first_drawn.take(which) == positions
        reached = np.diff(offsets(sizes)[borders])
        enough = (reached > budgets) | (reached == maskable)
        if enough.all():
            break
        draws = np.where(enough, draws, 2 * draws)
    # The random number of the unit that exceeds the budget has more bits, which are used only here.
    return _mask_to_budgets(
        text, MaskUnits(units.begins.take(which), sizes, borders), budgets,
        lambda crossing: to_uniform(drawn[np.minimum(crossing, len(drawn) - 1)], 32))


def mask_units_by_rank(text: TokenBatch, units: MaskUnits, ranks: np.ndarray,
                       rate: float) -> np.ndarray:
    """Mask each sample's units from the lowest rank on until its budget is spent.

    The budget is the rate times the sample's maskable tokens. The unit that would exceed it is
    masked with the probability that makes the expected number of masked tokens equal the budget. So
    the rate is met on average for units of any size. At least one unit is masked in every sample
    that has maskable tokens, as in BERT. If this unit is larger than the budget, the rate is also
    exceeded.

    Args:
        units: all maskable tokens of the text, in order.
        ranks: (units,) uint64, sampled with `Purpose.ORDER`; equal ranks keep their order.
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
    """Mask each sample's units, in the given order, within its budget.

    Args:
        units: units in the order of masking.
        budgets: (samples,) tokens.
        draw_coins: function of the (samples,) numbers of the units that would exceed the budgets;
            returns random numbers below 1 that decide whether these units are masked.
    """
    firsts, ends, spent = units.borders[:-1], units.borders[1:], offsets(units.sizes)
    # Compare integers, because a float sum of a sample's budget and the preceding tokens would be
    # rounded differently after other samples.
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


class TermList:
    """Masking strategy for terms, which are given by their token ids.

    Args:
        terms: ids of each term, without special tokens; empty terms are skipped. Only these ids are
            found: see `spellings`.
    """

    def __init__(self, terms: Iterable[Sequence[int]]) -> None:
        self._terms = {tuple(term) for term in terms if len(term)}
        self._prefixes = {term[:end] for term in self._terms for end in range(1, len(term) + 1)}

    def mark(self, text: TokenBatch) -> tuple[np.ndarray, np.ndarray]:
        """Find all terms; if several begin at one word, find the longest.

        A term begins and ends at word borders and inside one sample. Terms that share tokens are
        marked as one term.

        Returns:
            (tokens,) bool, True on the tokens of a term; and (tokens,) bool, True at the start of a
            term, which separates adjacent terms.
        """
        begins, lengths = self._find(text)
        depth = np.zeros(len(text.ids) + 1, dtype=np.int64)
        depth[begins] = 1
        np.subtract.at(depth, begins + lengths, 1)
        depth = np.cumsum(depth[:-1])
        first = np.zeros(len(text.ids), dtype=bool)
        first[begins[depth[begins] == 1]] = True
        return depth > 0, first

    def __call__(self, text: TokenBatch, rate: float) -> np.ndarray:
        """Mask terms first, then other words; see `mask_terms`."""
        return mask_terms(text, rate, *self.mark(text))

    def _find(self, text: TokenBatch) -> tuple[np.ndarray, np.ndarray]:
        """Find the longest term that begins at each word.

        Returns:
            first tokens of terms, ascending, and their lengths in tokens.
        """
        goes_on = np.append(_continues(text), False)
        ends_word = ~goes_on
        ends_word[:-1] |= text.word_starts
        ids, continues, is_border = text.ids.tolist(), goes_on.tolist(), ends_word.tolist()
        longest = np.zeros(len(ids), dtype=np.int64)
        for begin in text.words.begins.tolist():
            end, found = begin + 1, tuple(ids[begin:begin + 1])
            while found in self._prefixes:
                if is_border[end] and found in self._terms:
                    longest[begin] = end - begin
                if not continues[end]:
                    break
                end += 1
                found = tuple(ids[begin:end])
        begins = np.flatnonzero(longest)
        return begins, longest[begins]


def mask_terms(text: TokenBatch, rate: float, inside: np.ndarray,
               begins: np.ndarray) -> np.ndarray:
    """Mask terms in random order, then other words, until a share of each sample is masked.

    All tokens of a term are masked together, with all tokens of the words that it is part of. If a
    sample's terms exceed its budget, only some of the terms are masked. The rate is met on average
    as in `mask_units_by_rank`.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.
        inside: (tokens,) bool, True on the tokens of terms.
        begins: (tokens,) bool, True at the start of a term.

    Returns:
        (tokens,) bool.
    """
    words = text.words
    if not len(words.begins):
        return np.zeros(len(text.ids), dtype=bool)
    inside = inside & text.maskable
    goes_on = inside & _continues(text)
    goes_on[1:] &= inside[:-1]
    goes_on &= ~begins
    firsts = np.flatnonzero(~goes_on[words.begins])
    starts, sizes = words.begins[firsts], np.add.reduceat(words.sizes, firsts)
    units = MaskUnits(starts, sizes, starts.searchsorted(text.borders))
    marked = offsets(inside)
    is_term = marked[starts + sizes] > marked[starts]
    ranks = bits_per_key(text.keys, units.borders, Purpose.ORDER) >> np.uint64(1)
    ranks |= (~is_term).astype(np.uint64) << np.uint64(63)
    return mask_units_by_rank(text, units, ranks, rate)


def spellings(tokenizer: PreTrainedTokenizerBase, terms: Iterable[str]) -> list[list[int]]:
    """Encode terms as at the start of a text, after a space, and next to signs.

    Byte-level tokenizers and Metaspace have different tokens for these cases. WordPiece has
    different tokens after signs that its pre-tokenizer keeps, such as `°`. If the vocabulary has
    tokens that join a sign to the first or last character of a term (`3)`), the term is also
    encoded with these tokens, because it can only be masked together with them. Terms with a
    capital at the start of a sentence are another spelling, which the caller can add.
    """
    backend = tokenizer.backend_tokenizer
    before, after = _joined_signs(backend)
    contexts = [(lead, term, end) for term in filter(None, map(str.strip, terms))
                for lead in (*_LEADS, *(f"a{space}{sign}" for sign in _signs_of(before, term[0])
                                        for space in ("", " ")))
                for end in ("", *_signs_of(after, term[-1]))]
    encodings = backend.encode_batch(["".join(one) for one in contexts], add_special_tokens=False)
    found: dict[tuple[int, ...], None] = {}
    for (lead, term, _), one in zip(contexts, encodings, strict=True):
        begin, end = len(lead.rstrip()), len(lead) + len(term)
        found[tuple(number for number, (first, last) in zip(one.ids, one.offsets, strict=True)
                    if last > begin and first < end)] = None
    return [list(ids) for ids in found if ids]


def _joined_signs(backend: Tokenizer) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Find the signs before and after each letter or digit in any token."""
    from bmtools.vocab.tokenizer import token_texts
    from bmtools.vocab.words import is_sign

    before, after = defaultdict(set), defaultdict(set)
    for left, right in {pair for text in token_texts(backend).values() for pair in pairwise(text)}:
        if is_sign(left) and right.isalnum():
            before[right].add(left)
        elif left.isalnum() and is_sign(right):
            after[left].add(right)
    return before, after


def _signs_of(signs: Mapping[str, set[str]], character: str) -> list[str]:
    return sorted(set().union(*(signs.get(one, ()) for one in (character, character.lower()))))


def _continues(text: TokenBatch) -> np.ndarray:
    """Mark the maskable tokens that follow another one in their sample, (tokens,) bool."""
    follows = text.maskable.copy()
    follows[1:] &= text.maskable[:-1] & (text.sample[1:] == text.sample[:-1])
    follows[:1] = False
    return follows
