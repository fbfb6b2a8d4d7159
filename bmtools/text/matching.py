"""Matching of tens of thousands of words in text, a megabyte at a time.

All is arithmetic on whole arrays: characters are folded by a table, borders of words found by
differences, words hashed by a polynomial in running sums. Words with the hash of a target are then
compared character by character, so no two words are ever confused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bmtools.text.case_folding import UNSPACED, WORD, Folded, Folding, as_codes, as_string

Spans = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of words or strings, their begins and their ends, each (spans,) int64."""

_SLICE = 1 << 16  # characters hashed at once, few enough for a core's cache
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_MODULUS = 1 << 64
_FILTER_BITS = 18
_SEPARATOR = "\n"  # between texts; in no word


class Matches(NamedTuple):
    """Positions of words, in order of text and begin.

    Args:
        words: (matches,) int32, numbers of words.
        texts: (matches,) int32, numbers of texts.
        starts: (matches,) int64, code points before the word in its text.
        ends: (matches,) int64, code points before its end.
    """

    words: np.ndarray
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Matcher:
    """Search for words in texts: the same characters after folding, between borders of words.

    No letter, figure or mark may touch a word at either end. Scripts without spaces are the
    exception (Chinese, Japanese, Thai, Lao, Khmer, Burmese): words that begin or end in their
    characters are found anywhere, also inside longer ones. White space within a word of several
    parts matches any white space.

    Args:
        words: folded, each once, each with a letter or figure.
        folding: how text is folded.
    """

    def __init__(self, words: Sequence[str], folding: Folding) -> None:
        self._folding = folding
        codes = [as_codes(word) for word in words]
        self._unspaced = np.array([(one >= UNSPACED).any() for one in codes], dtype=bool)
        runs: dict[bytes, int] = {}
        parts: dict[bytes, set[tuple[int, int]]] = defaultdict(set)
        windows: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._long_words: dict[str, int] = {}
        for number, one in enumerate(codes):
            begins, ends = _runs(one)
            if self._unspaced[number]:
                windows[len(one), int(np.argmax(one >= UNSPACED))].append(number)
            elif ends[0] - begins[0] == len(one):
                runs[one.tobytes()] = number
            else:
                parts[one[begins[0]:ends[0]].tobytes()].add((int(begins[0]), len(one)))
                self._long_words[as_string(one)] = number
        # A run of letters may be a word, the first part of others, or both.
        strings = list({**runs, **dict.fromkeys(parts)})
        self._runs = _HashTable([np.frombuffer(one, dtype=np.uint32) for one in strings])
        self._word_of = np.array([runs.get(one, -1) for one in strings], dtype=np.int64)
        self._parts = {number: sorted(parts[one]) for number, one in enumerate(strings)
                       if one in parts}
        self._begins_others = np.array([one in parts for one in strings], dtype=bool)
        self._windows = [
            (length, anchor, np.array(members), _HashTable([codes[number] for number in members]),
             np.unique([codes[number][anchor] for number in members]))
            for (length, anchor), members in windows.items()]
        longest = max([self._runs.longest, *(length for length, _ in windows)])
        self._powers = _Powers(_SLICE + longest)

    def find(self, texts: Sequence[str]) -> Matches:
        """Find all words in all texts, those inside others included."""
        joined = _SEPARATOR.join(texts) + _SEPARATOR
        folded = self._folding.fold(joined)
        codes = folded.codes
        begins, ends = _runs(codes)
        entries, starts, ends = self._in_runs(codes, begins, ends)
        words = self._word_of[entries]
        found = [(words, starts, ends)]
        if self._long_words:
            own = words >= 0
            found = [(words[own], starts[own], ends[own]), self._with_parts(codes, entries, starts)]
        if self._windows:
            found.extend(self._in_windows(codes))
        words, starts, lasts = (np.concatenate(column) for column in zip(*found, strict=True))
        lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + len(_SEPARATOR)
        origins = np.cumsum(lengths) - lengths
        matches = _to_texts(words, starts, lasts, folded, joined, origins)
        if len(found) > 1:
            matches = _select(matches, np.lexsort((matches.ends, matches.starts, matches.texts)))
        return matches

    def _in_runs(self, codes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Spans:
        """Find the runs of letters in the table: entry, begin and end."""
        found = []
        for low in range(0, len(codes), _SLICE):
            first, last = np.searchsorted(begins, (low, low + _SLICE))
            if first == last:
                continue
            own, after = begins[first:last], ends[first:last]
            sums = self._powers.sums(codes[low:int(after[-1])][:self._powers.max_characters])
            # Words longer than all targets may reach beyond the sums.
            hashes = self._powers.hashes(sums, own - low, np.minimum(after - low, len(sums) - 1))
            indices, entries = self._runs.look_up(hashes)
            found.append((entries, own[indices], after[indices]))
        return self._runs.verified(codes, *_joined(found))

    def _in_windows(self, codes: np.ndarray) -> Iterator[Spans]:
        """Find words with characters of scripts without spaces, which have few borders."""
        anchors = np.flatnonzero(codes >= UNSPACED)
        if not len(anchors):
            return
        for length, offset, members, table, characters in self._windows:
            starts = anchors[np.isin(codes[anchors], characters)] - offset
            starts = starts[(starts >= 0) & (starts + length <= len(codes))]
            found = []
            for low in range(0, len(codes), _SLICE):
                own = starts[slice(*np.searchsorted(starts, (low, low + _SLICE)))]
                if len(own):
                    sums = self._powers.sums(codes[low:int(own[-1]) + length])
                    hits, which = table.look_up(
                        self._powers.hashes(sums, own - low, own - low + length))
                    found.append((which, own[hits], own[hits] + length))
            which, starts, ends = table.verified(codes, *_joined(found))
            free = _untouched(codes, starts, ends)
            yield members[which[free]], starts[free], ends[free]

    def _with_parts(self, codes: np.ndarray, entries: np.ndarray, starts: np.ndarray) -> Spans:
        """Look for words of several parts where their first part occurs.

        However many words begin with one part, each of their lengths is looked up once.
        """
        is_first = self._begins_others[entries]
        # One space stands for white space of any length.
        is_space = codes == ord(" ")
        kept = np.flatnonzero(~(is_space & np.append(False, is_space[:-1])))
        text = as_string(codes[kept])
        found = []
        for entry, position in zip(entries[is_first].tolist(),
                                   np.searchsorted(kept, starts[is_first]).tolist(), strict=True):
            for before, length in self._parts[entry]:
                begin = position - before
                number = self._long_words.get(text[begin:begin + length]) if begin >= 0 else None
                if number is not None:
                    found.append((number, begin, begin + length - 1))
        words, begins, lasts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        begins, ends = kept[begins], kept[lasts] + 1
        free = _untouched(codes, begins, ends)
        return words[free], begins[free], ends[free]

class _HashTable:
    """Strings of characters, looked up by their hash.

    Args:
        strings: folded, distinct; their indices are their entries.
    """

    def __init__(self, strings: Sequence[np.ndarray]) -> None:
        self.longest = max(map(len, strings), default=0)
        powers = _Powers(self.longest)
        hashes = np.array([powers.sums(one)[-1] for one in strings], dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._entries = order
        self._lengths = np.array([len(strings[n]) for n in order], dtype=np.int64)
        self._offsets = np.cumsum(self._lengths) - self._lengths
        self._characters = np.concatenate([strings[n] for n in order] or [np.zeros(0, np.uint32)])
        self._bucket = self._hashes >> np.uint64(64 - _FILTER_BITS)
        counts = np.bincount(self._bucket.astype(np.int64), minlength=1 << _FILTER_BITS)
        self._is_filled = counts > 0
        self._first_row = (np.cumsum(counts) - counts).astype(np.int32)
        self._max_bucket = int(counts.max(initial=0))

    def look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of hashes in the table, in order, and their rows."""
        buckets = (hashes >> np.uint64(64 - _FILTER_BITS)).astype(np.int64)
        indices = np.flatnonzero(self._is_filled.take(buckets))
        hashes, first = hashes[indices], self._first_row[buckets[indices]]
        rows = np.full(len(indices), -1)
        for step in range(self._max_bucket):
            row = np.minimum(first + step, len(self._hashes) - 1)
            rows = np.where(self._hashes[row] == hashes, row, rows)
        found = rows >= 0
        return indices[found], rows[found]

    def verified(self, codes: np.ndarray, which: np.ndarray, starts: np.ndarray,
                 ends: np.ndarray) -> Spans:
        """Keep the spans that are equal character by character: entry, begin and end."""
        lengths = self._lengths[which]
        same = lengths == ends - starts
        if not same.all():
            which, starts, ends = which[same], starts[same], ends[same]
            lengths = lengths[same]
        before = np.cumsum(lengths) - lengths
        steps = np.arange(lengths.sum())
        equal = (codes[np.repeat(starts - before, lengths) + steps]
                 == self._characters[np.repeat(self._offsets[which] - before, lengths) + steps])
        if not equal.all():
            whole = np.logical_and.reduceat(equal, before)
            which, starts, ends = which[whole], starts[whole], ends[whole]
        return self._entries[which], starts, ends


class _Powers:
    """Hashes of spans by running sums: that of characters c is the sum of c_i base^(i+1)."""

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters
        factors = np.full(max_characters + 1, _BASE, dtype=np.uint64)
        self._powers = np.cumprod(factors)
        factors[:] = pow(_BASE, -1, _MODULUS)
        factors[0] = 1
        self._inverse = np.cumprod(factors)

    def sums(self, codes: np.ndarray) -> np.ndarray:
        """Return running sums, (characters + 1,)."""
        sums = np.zeros(len(codes) + 1, dtype=np.uint64)
        np.multiply(codes, self._powers[:len(codes)], out=sums[1:], dtype=np.uint64)
        np.cumsum(sums[1:], out=sums[1:])
        return sums

    def hashes(self, sums: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Hash spans of the summed characters."""
        return (sums[ends] - sums[starts]) * self._inverse[starts]


def _runs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find begins and ends of runs of letters."""
    inner = np.zeros(len(codes) + 2, dtype=bool)
    np.greater_equal(codes, WORD, out=inner[1:-1])
    if codes.max(initial=0) >= UNSPACED:
        inner[1:-1] &= codes < UNSPACED
    edges = np.flatnonzero(inner[1:] != inner[:-1])
    return edges[::2], edges[1::2]


def _untouched(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Mark spans at whose ends no letters of a spaced script meet others, (spans,) bool."""
    padded = np.concatenate([[0], codes, [0]])
    outer = np.stack([padded[starts], padded[ends + 1]])
    inner = np.stack([codes[starts], codes[ends - 1]])
    touched = (outer >= WORD) & (outer < UNSPACED) & (inner < UNSPACED)
    return np.logical_not(touched.any(axis=0))


def _joined(found: Iterable[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    empty = (np.zeros(0, dtype=np.int64),) * 3
    return [np.concatenate(column) for column in zip(empty, *found, strict=True)]


def _to_texts(words: np.ndarray, starts: np.ndarray, ends: np.ndarray, folded: Folded,
              joined: str, origins: np.ndarray) -> Matches:
    """Turn positions among folded characters into positions in their texts."""
    first, last = folded.positions(starts), folded.positions(ends)
    if folded.origin is not None:
        # A word may end within the folded form of a character.
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
