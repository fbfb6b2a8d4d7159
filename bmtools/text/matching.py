"""Search for tens of thousands of words in text, a megabyte at a time.

All steps are operations on complete arrays. A table folds the characters, differences find the
word borders, and hashes of the words are looked up in an index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bmtools.text.case_folding import UNSPACED, WORD, Folded, Folding, as_codes, as_string
from bmtools.text.hashing import CHUNK, HashIndex, hash_spans

_SEPARATOR = "\n"  # between texts; not part of any word


class Matches(NamedTuple):
    """Positions of words, ordered by text and start.

    Args:
        words: (matches,) int32, numbers of the words.
        texts: (matches,) int32, numbers of the texts.
        starts: (matches,) int64, starts of the words in their texts, in code points.
        ends: (matches,) int64, ends of the words, exclusive.
    """

    words: np.ndarray
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Matcher:
    """Search for words in texts: the same characters after folding, between word borders.

    A letter, digit or mark must not touch a word at either end. Scripts without spaces are the
    exception (Chinese, Japanese, Thai, Lao, Khmer, Burmese): words that begin or end with their
    characters are found anywhere, also inside longer words. White space within a word of several
    parts matches any white space.

    Args:
        words: distinct folded words, each with a letter or digit.
        folding: how text is folded.
    """

    def __init__(self, words: Sequence[str], folding: Folding) -> None:
        self._folding = folding
        runs: dict[str, int] = {}
        self._others: dict[str, int] = {}  # words that are not a single run
        extents: dict[str, set[tuple[int, int]]] = defaultdict(set)  # of these words, by anchor
        for number, word in enumerate(words):
            codes = as_codes(word)
            unspaced = np.flatnonzero(codes >= UNSPACED)
            begins, ends = _runs(codes)
            if not len(unspaced) and ends[0] - begins[0] == len(word):
                runs[word] = number
                continue
            first, last = (unspaced[0], unspaced[0] + 1) if len(unspaced) else (begins[0], ends[0])
            self._others[word] = number
            extents[word[first:last]].add((int(first), len(word)))
        # A run of letters may be a word, the first part of others, or both.
        strings = list({**runs, **extents})
        self._longest = max(map(len, strings), default=0)
        self._word_of = np.array([runs.get(one, -1) for one in strings], dtype=np.int64)
        self._extents = {number: sorted(extents[one]) for number, one in enumerate(strings)
                         if one in extents}
        sizes = np.array([*map(len, strings)], dtype=np.int64)
        ends = sizes.cumsum()
        self._index = HashIndex(_hashes(as_codes("".join(strings)), ends - sizes, ends))

    def find(self, texts: Sequence[str]) -> Matches:
        """Find all words in all texts, including words inside other words."""
        joined = _SEPARATOR.join(texts) + _SEPARATOR
        folded = self._folding.fold(joined)
        codes = folded.codes
        begins, ends = _runs(codes)
        short = ends - begins <= self._longest
        begins, ends = begins[short], ends[short]
        places, equals = self._index.find(_hashes(codes, begins, ends))
        entries, starts, ends = self._index.order[equals], begins[places], ends[places]
        words = self._word_of[entries]
        if self._others:
            own = words >= 0
            words, starts, ends = map(np.concatenate, zip(
                (words[own], starts[own], ends[own]), self._anchored(codes, entries, starts),
                strict=True))
        lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + len(_SEPARATOR)
        matches = _to_texts(words, starts, ends, folded, joined, np.cumsum(lengths) - lengths)
        if self._others:
            matches = _select(matches, np.lexsort((matches.ends, matches.starts, matches.texts)))
        return matches

    def _anchored(self, codes: np.ndarray, entries: np.ndarray,
                  starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Search for words of several parts at their first part, and for unspaced words.

        For each occurrence of an anchor, every extent is looked up once, even if many words have
        the same anchor. Return the words' numbers, starts and ends.
        """
        is_anchor = np.isin(entries, [*self._extents])
        # Replace white space of any length by one space.
        is_space = codes == ord(" ")
        kept = np.flatnonzero(~(is_space & np.append(False, is_space[:-1])))
        text = as_string(codes[kept])
        found = []
        for entry, position in zip(entries[is_anchor].tolist(),
                                   np.searchsorted(kept, starts[is_anchor]).tolist(), strict=True):
            for before, length in self._extents[entry]:
                begin = position - before
                number = self._others.get(text[begin:begin + length]) if begin >= 0 else None
                if number is not None:
                    found.append((number, begin, begin + length - 1))
        words, begins, lasts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        begins, ends = kept[begins], kept[lasts] + 1
        free = _untouched(codes, begins, ends)
        return words[free], begins[free], ends[free]


def _hashes(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Hash spans of characters; with 64 bits, even billions of words hardly ever collide."""
    size = codes.itemsize
    return hash_spans(np.append(codes, np.zeros(CHUNK // size, codes.dtype)).view(np.uint8),
                      starts * size, (ends - starts) * size)


def _runs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find starts and ends: first of letter runs, then of single unspaced letters."""
    inner = np.zeros(len(codes) + 2, dtype=bool)
    np.greater_equal(codes, WORD, out=inner[1:-1])
    unspaced = np.zeros(0, dtype=np.int64)
    if codes.max(initial=0) >= UNSPACED:
        inner[1:-1] &= codes < UNSPACED
        unspaced = np.flatnonzero(codes >= UNSPACED)
    edges = np.flatnonzero(inner[1:] != inner[:-1])
    return np.append(edges[::2], unspaced), np.append(edges[1::2], unspaced + 1)


def _untouched(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Mark spans with word borders at both ends, (spans,) bool; unspaced letters are borders."""
    padded = np.concatenate([[0], codes, [0]])
    outer = np.stack([padded[starts], padded[ends + 1]])
    inner = np.stack([codes[starts], codes[ends - 1]])
    touched = (outer >= WORD) & (outer < UNSPACED) & (inner < UNSPACED)
    return np.logical_not(touched.any(axis=0))


def _to_texts(words: np.ndarray, starts: np.ndarray, ends: np.ndarray, folded: Folded,
              joined: str, origins: np.ndarray) -> Matches:
    """Convert positions of folded characters to positions in the texts."""
    first, last = folded.positions(starts), folded.positions(ends)
    if folded.origin is not None:
        # A word may end inside the folded form of a character.
        last = np.maximum(last, folded.positions(ends - 1) + 1)
        # A character that vanishes after a word belongs to it only if it is a mark.
        loose = np.flatnonzero(last - folded.positions(ends - 1) > 1)
        for number in loose.tolist():
            start, end = int(first[number]), int(last[number])
            while end - 1 > start and (joined[end - 1] == " " or not joined[end - 1].isprintable()):
                end -= 1
            last[number] = end
    texts = np.searchsorted(origins, first, side="right") - 1
    within = np.searchsorted(origins, last - 1, side="right") - 1 == texts
    matches = Matches(words.astype(np.int32), texts.astype(np.int32), first - origins[texts],
                      last - origins[texts])
    return matches if within.all() else _select(matches, within)


def _select(matches: Matches, which: np.ndarray) -> Matches:
    return Matches(*(column[which] for column in matches))
