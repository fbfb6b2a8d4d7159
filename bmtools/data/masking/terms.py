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
    """Terms as a trie of token ids.

    Memory grows with the number of distinct prefixes, about nine bytes each.

    Args:
        terms: ids of each term, no special tokens; empty ones are skipped. A term is found
            only as these ids: see `spellings`.
    """

    def __init__(self, terms: Iterable[Sequence[int]]) -> None:
        sequences = [np.asarray(term, dtype=np.int64) for term in terms if len(term)]
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        ids = np.concatenate(sequences) if sequences else np.zeros(0, dtype=np.int64)
        self._size = int(ids.max(initial=0)) + 1
        self._edges, self._whole = _build_trie(ids, lengths, self._size)

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
        """Follow the trie from the beginning of every word at once.

        Returns:
            first tokens of terms, ascending, and their lengths in tokens.
        """
        alive = text.words.begins
        nodes, length = np.zeros_like(alive), 0
        longest = np.zeros(len(text.ids), dtype=np.int64)
        goes_on = np.append(_continues(text), False)
        ends_word = ~goes_on
        ends_word[:-1] |= text.word_starts
        while len(alive) and len(self._edges):
            ids = text.ids[alive + length]
            codes = nodes * self._size + ids
            edges = np.searchsorted(self._edges, codes)
            found = (self._edges[np.minimum(edges, len(self._edges) - 1)] == codes)
            found &= ids < self._size
            alive, nodes = alive[found], edges[found] + 1
            length += 1
            longest[alive[self._whole[nodes] & ends_word[alive + length]]] = length
            going = goes_on[alive + length]
            alive, nodes = alive[going], nodes[going]
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


def _build_trie(ids: np.ndarray, lengths: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct prefixes of all terms; 0 is the empty one.

    Args:
        ids: (all tokens,) of all terms, concatenated.
        lengths: (terms,).
        size: more than any id.

    Returns:
        ascending codes of all edges, parent * size + id, of which the n-th leads to node n + 1; and
        (nodes,) whether a term ends there.
    """
    firsts = offsets(lengths)[:-1]
    nodes = np.zeros(len(lengths), dtype=np.int64)
    levels, whole, count, depth = [], [np.zeros(1, dtype=bool)], 1, 0
    alive = np.arange(len(lengths))
    while len(alive):
        codes, which = np.unique(nodes[alive] * size + ids[firsts[alive] + depth],
                                 return_inverse=True)
        nodes[alive] = count + which
        depth += 1
        ends = np.zeros(len(codes), dtype=bool)
        ends[which[lengths[alive] == depth]] = True
        levels.append(codes)
        whole.append(ends)
        count += len(codes)
        alive = alive[lengths[alive] > depth]
    return np.concatenate(levels or [np.zeros(0, dtype=np.int64)]), np.concatenate(whole)


def _continues(text: TokenBatch) -> np.ndarray:
    """Mark the maskable tokens that follow another of their sample, (tokens,) bool."""
    follows = text.maskable.copy()
    follows[1:] &= text.maskable[:-1] & (text.sample[1:] == text.sample[:-1])
    follows[:1] = False
    return follows
