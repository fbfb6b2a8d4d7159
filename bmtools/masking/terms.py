"""Masking that prefers listed terms: names of entities, words of a domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmtools.masking.mask_units import MaskRates, mask_units_by_rank, random_ranks
from bmtools.masking.ragged import offsets
from bmtools.masking.token_batch import MaskUnits, TokenBatch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, eq=False)
class TermPositions:
    """Positions of terms in a text.

    Args:
        inside: (tokens,) bool, True on the tokens of a term.
        begins: (tokens,) bool, True where a term begins, which separates adjacent terms.
    """

    inside: np.ndarray
    begins: np.ndarray


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

    def mark(self, text: TokenBatch) -> TermPositions:
        """Find all terms; the longest of those that begin at one word.

        A term begins and ends with a word of the text and does not leave its sample. Terms that
        share tokens are marked as one.
        """
        begins, lengths = self._find(text)
        depth = np.zeros(len(text) + 1, dtype=np.int64)
        depth[begins] = 1
        np.subtract.at(depth, begins + lengths, 1)
        depth = np.cumsum(depth[:-1])
        first = np.zeros(len(text), dtype=bool)
        first[begins[depth[begins] == 1]] = True
        return TermPositions(depth > 0, first)

    def _find(self, text: TokenBatch) -> tuple[np.ndarray, np.ndarray]:
        """Follow the trie from the beginning of every word at once.

        Returns:
            first tokens of terms, ascending, and their lengths in tokens.
        """
        begins = text.words.begins
        longest = np.zeros(len(text), dtype=np.int64)
        goes_on = np.append(text.continues, False)
        ends_word = ~goes_on
        ends_word[:-1] |= text.starts
        alive, nodes, length = begins, np.zeros_like(begins), 0
        while len(alive):
            alive, nodes = self._follow(alive, nodes, text.ids[alive + length])
            length += 1
            here = self._whole[nodes] & ends_word[alive + length]
            longest[alive[here]] = length
            going = goes_on[alive + length]
            alive, nodes = alive[going], nodes[going]
        found = np.flatnonzero(longest)
        return found, longest[found]

    def _follow(self, tokens: np.ndarray, nodes: np.ndarray,
                ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Go down the trie by one token: the tokens where that is possible, and their new nodes."""
        codes = nodes * self._size + ids
        edges = np.searchsorted(self._edges, codes)
        there = (self._edges[np.minimum(edges, len(self._edges) - 1)] == codes) \
            if len(self._edges) else np.zeros(len(codes), dtype=bool)
        there &= ids < self._size
        return tokens[there], edges[there] + 1


@dataclass(frozen=True, eq=False)
class TermMasking:
    """Masking of terms first, then of other words.

    Args:
        terms: masked first.
    """

    terms: TermList

    def __call__(self, text: TokenBatch, rates: MaskRates) -> np.ndarray:
        """Mask terms and words; see `mask_terms`."""
        return mask_terms(text, rates, self.terms.mark(text))


def mask_terms(text: TokenBatch, rates: MaskRates, marks: TermPositions | np.ndarray) -> np.ndarray:
    """Mask terms in random order, then other words, until a share of each sample is masked.

    A term is masked whole, with all of any word that it is part of. Where a sample's terms exceed
    its budget, some of them are masked and nothing else; the rate is met on average as in
    `mask_units_by_rank`.

    Args:
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).
        marks: positions of terms; or (tokens,) bool, True on the tokens of terms, where adjacent
            terms count as one.

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: a rate outside 0 to 1.
    """
    if isinstance(marks, np.ndarray):
        marks = TermPositions(marks, np.zeros_like(marks))
    units, is_term = _join_terms(text, text.words, marks)
    ranks = random_ranks(text, units) >> np.uint64(1)
    ranks |= (~is_term).astype(np.uint64) << np.uint64(63)
    return mask_units_by_rank(text, units, ranks, rates)


def spellings(tokenizer: PreTrainedTokenizerBase, terms: Iterable[str]) -> list[list[int]]:
    """Encode terms as at the beginning of a text and as after a space.

    Byte-level tokenizers have different tokens for the two, others do not. Terms with a capital
    at the beginning of a sentence are another spelling, which the caller may list too.
    """
    texts = [spelled for term in terms for spelled in (term, f" {term}")]
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [list(ids) for ids in dict.fromkeys(tuple(one.ids) for one in encodings)]


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


def _join_terms(text: TokenBatch, words: MaskUnits,
                marks: TermPositions) -> tuple[MaskUnits, np.ndarray]:
    """Join the words of each term into one unit.

    Returns:
        units, and (units,) bool, True on terms.
    """
    if not len(words):
        return words, np.zeros(0, dtype=bool)
    inside, begins = marks.inside & text.maskable, words.begins
    goes_on = inside & text.continues & ~marks.begins
    goes_on[1:] &= inside[:-1]
    firsts = np.flatnonzero(~goes_on[begins])
    units = MaskUnits(begins[firsts], np.add.reduceat(words.sizes, firsts),
                      text.borders_among(begins[firsts]))
    marked = offsets(inside)
    return units, marked[units.begins + units.sizes] > marked[units.begins]
