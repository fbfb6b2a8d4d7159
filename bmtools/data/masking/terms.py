"""Masking that prefers listed terms: names of entities, words of a domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bmtools.data.masking.corruption import MaskUnits, TokenBatch
from bmtools.data.masking.strategies import mask_units_by_rank
from bmtools.keyed_random import Purpose, bits_per_key
from bmtools.ragged import offsets

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

# What a term may follow: nothing, a space, and signs that tokenizers treat differently.
_LEADS = ("", "a ", "a(", "a'", "a°", "a °")


class TermList:
    """Terms by their token ids.

    Args:
        terms: ids of each term, no special tokens; empty ones are skipped. A term is found
            only as these ids: see `spellings`.
    """

    def __init__(self, terms: Iterable[Sequence[int]]) -> None:
        self._terms = {tuple(term) for term in terms if len(term)}
        self._prefixes = {term[:end] for term in self._terms for end in range(1, len(term) + 1)}

    def mark(self, text: TokenBatch) -> tuple[np.ndarray, np.ndarray]:
        """Find all terms; the longest of those that begin at one word.

        A term begins and ends with a word of the text and does not leave its sample. Terms that
        share tokens are marked as one.

        Returns:
            (tokens,) bool, True on the tokens of a term; and (tokens,) bool, True where a term
            begins, which separates adjacent terms.
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

    A term is masked whole, with all of any word that it is part of. Where a sample's terms exceed
    its budget, some of them are masked and nothing else; the rate is met on average as in
    `mask_units_by_rank`.

    Args:
        rate: share of maskable tokens to mask, 0 to 1.
        inside: (tokens,) bool, True on the tokens of terms.
        begins: (tokens,) bool, True where a term begins.

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
    """Encode terms as at the beginning of a text, after a space, and beside signs.

    Byte-level tokenizers and Metaspace have different tokens for these, and WordPiece after signs
    that its pre-tokenizer keeps, such as `°`. Where the vocabulary has tokens that join a sign to
    the first or last character of a term (`3)`), the term is also spelled with these, as it
    cannot be masked without. Terms with a capital at the beginning of a sentence are another
    spelling, which the caller may list too.
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
    """Find for each letter or figure the signs before and after it in some token."""
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
    """Mark the maskable tokens that follow another of their sample, (tokens,) bool."""
    follows = text.maskable.copy()
    follows[1:] &= text.maskable[:-1] & (text.sample[1:] == text.sample[:-1])
    follows[:1] = False
    return follows
