"""Where tens of thousands of words stand in text, a megabyte at a time.

All is arithmetic on whole arrays: what characters become by a table, where words begin and end by
differences, a polynomial hash of each word by running sums. Words whose hash is wanted are then
compared character by character, so no two words are ever taken for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.search.case_folding import UNSPACED, WORD, Folded, Folding, as_string

Segment = Callable[[str], Sequence[int]]
"""Gives the offsets, in code points, at which the words of a text begin."""

Places = tuple[np.ndarray, np.ndarray, np.ndarray]
"""What stands somewhere, where it begins and where it ends, each (places,) int64."""

_SLICE = 1 << 16  # characters hashed at once; what that takes stays in a core's cache
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_MODULUS = 1 << 64
_FILTER_BITS = 18
_BORDER = "\n"  # stands between texts; no word holds it


@dataclass(frozen=True)
class Matches:
    """Where words stand, in order of text and place.

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
    """Finds words in texts: the same characters after folding, between borders of words.

    No letter, figure or mark may touch a word at either end. Scripts without spaces are the
    exception (Chinese, Japanese, Thai, Lao, Khmer, Burmese): words that begin or end in their
    characters are found anywhere, also inside longer ones, unless a segmenter tells where words
    begin and end. White space within a word of several parts matches any white space.

    Args:
        words: folded, each once, each with a letter or figure.
        folding: how text is folded.
        segment: finds words in scripts without spaces.
    """

    def __init__(self, words: Sequence[str], folding: Folding,
                 segment: Segment | None = None) -> None:
        self._folding = folding
        self._segment = segment
        codes = [folding.fold(word).codes for word in words]
        self._unspaced = np.array([(one >= UNSPACED).any() for one in codes], dtype=bool)
        runs: dict[bytes, int] = {}
        parts: dict[bytes, set[tuple[int, int]]] = defaultdict(set)
        windows: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._whole: dict[str, int] = {}
        for number, one in enumerate(codes):
            begins, ends = _runs(one)
            if self._unspaced[number]:
                windows[len(one), int(np.argmax(one >= UNSPACED))].append(number)
            elif ends[0] - begins[0] == len(one):
                runs[one.tobytes()] = number
            else:
                parts[one[begins[0]:ends[0]].tobytes()].add((int(begins[0]), len(one)))
                self._whole[as_string(one)] = number
        # A run may be a word, the first part of others, or both.
        strings = list({**runs, **dict.fromkeys(parts)})
        self._runs = _Wanted([np.frombuffer(one, dtype=np.uint32) for one in strings])
        self._word_of = np.array([runs.get(one, -1) for one in strings], dtype=np.int64)
        self._parts = {number: sorted(parts[one]) for number, one in enumerate(strings)
                       if one in parts}
        self._begins_others = np.array([one in parts for one in strings], dtype=bool)
        self._windows = [
            (length, anchor, np.array(members), _Wanted([codes[number] for number in members]),
             np.unique([codes[number][anchor] for number in members]))
            for (length, anchor), members in windows.items()]
        longest = max([self._runs.longest, *(length for length, _ in windows)])
        self._powers = _Powers(_SLICE + longest)

    def find(self, texts: Sequence[str]) -> Matches:
        """Find all words in all texts, those inside others included."""
        joined = _BORDER.join(texts) + _BORDER
        folded = self._folding.fold(joined)
        codes = folded.codes
        begins, ends = _runs(codes)
        entries, starts, ends = self._in_runs(codes, begins, ends)
        found = [self._alone(entries, starts, ends)]
        if self._whole:
            found.append(self._with_parts(codes, entries, starts))
        if self._windows:
            found.extend(self._in_windows(codes))
        words, starts, lasts = (np.concatenate(column) for column in zip(*found, strict=True))
        lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + len(_BORDER)
        origins = np.cumsum(lengths) - lengths
        matches = _located(words, starts, lasts, folded, joined, origins)
        if self._segment is not None and self._windows:
            matches = _taken(matches, self._agrees(matches, texts, self._segment))
        if len(found) > 1:
            matches = _taken(matches, np.lexsort((matches.ends, matches.starts, matches.texts)))
        return matches

    def _in_runs(self, codes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Places:
        """Find wanted runs of letters: entry, begin and end."""
        found = []
        for low in range(0, len(codes), _SLICE):
            first, last = np.searchsorted(begins, (low, low + _SLICE))
            if first == last:
                continue
            own, after = begins[first:last], ends[first:last]
            sums = self._powers.sums(codes[low:int(after[-1])][:self._powers.most])
            # Words too long to be wanted may reach beyond the sums.
            hashes = self._powers.hashes(sums, own - low, np.minimum(after - low, len(sums) - 1))
            places, entries = self._runs.look_up(hashes)
            found.append((entries, own[places], after[places]))
        return self._runs.verified(codes, *_joined(found))

    def _in_windows(self, codes: np.ndarray) -> Iterator[Places]:
        """Find words with characters of scripts without spaces, which have few borders."""
        anchors = np.flatnonzero(codes >= UNSPACED)
        if not len(anchors):
            return
        for length, offset, members, wanted, characters in self._windows:
            places = anchors[np.isin(codes[anchors], characters)] - offset
            places = places[(places >= 0) & (places + length <= len(codes))]
            found = []
            for low in range(0, len(codes), _SLICE):
                own = places[slice(*np.searchsorted(places, (low, low + _SLICE)))]
                if len(own):
                    sums = self._powers.sums(codes[low:int(own[-1]) + length])
                    hits, which = wanted.look_up(
                        self._powers.hashes(sums, own - low, own - low + length))
                    found.append((which, own[hits], own[hits] + length))
            which, starts, ends = wanted.verified(codes, *_joined(found))
            free = ~(_touched(codes, starts, -1) | _touched(codes, ends - 1, 1))
            yield members[which[free]], starts[free], ends[free]

    def _alone(self, entries: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Places:
        """Take the runs that are words."""
        words = self._word_of[entries]
        if not self._whole:
            return words, starts, ends
        own = words >= 0
        return words[own], starts[own], ends[own]

    def _with_parts(self, codes: np.ndarray, entries: np.ndarray, starts: np.ndarray) -> Places:
        """Look for words of several parts where their first part stands.

        However many words begin with one part, each of their lengths is looked up once.
        """
        is_first = self._begins_others[entries]
        kept = _single_spaced(codes)
        text = as_string(codes[kept])
        found = []
        for entry, place in zip(entries[is_first].tolist(),
                                np.searchsorted(kept, starts[is_first]).tolist(), strict=True):
            for before, length in self._parts[entry]:
                begin = place - before
                number = self._whole.get(text[begin:begin + length]) if begin >= 0 else None
                if number is not None:
                    found.append((number, begin, begin + length - 1))
        words, begins, lasts = np.array(found, dtype=np.int64).reshape(-1, 3).T
        begins, ends = kept[begins], kept[lasts] + 1
        free = _untouched(codes, begins, ends)
        return words[free], begins[free], ends[free]

    def _agrees(self, matches: Matches, texts: Sequence[str], segment: Segment) -> np.ndarray:
        """Tell which matches begin and end where words do; (matches,) bool."""
        agrees = ~self._unspaced[matches.words]
        asked = np.flatnonzero(~agrees)
        borders: set[int] = set()
        last = -1
        for place in asked[np.argsort(matches.texts[asked], kind="stable")].tolist():
            number = int(matches.texts[place])
            if number != last:
                borders, last = _word_borders(texts[number], segment), number
            agrees[place] = (matches.starts[place] in borders and matches.ends[place] in borders)
        return agrees


class _Wanted:
    """Different strings of characters, which are looked up by their hash.

    Args:
        strings: folded; their places here are their entries.
    """

    def __init__(self, strings: Sequence[np.ndarray]) -> None:
        self.longest = max(map(len, strings), default=0)
        powers = _Powers(self.longest)
        hashes = np.array([powers.hash(one) for one in strings], dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._entries = order
        self._lengths = np.array([len(strings[n]) for n in order], dtype=np.int64)
        self._places = np.cumsum(self._lengths) - self._lengths
        self._characters = np.concatenate([strings[n] for n in order] or [np.zeros(0, np.uint32)])
        self._bucket = self._hashes >> np.uint64(64 - _FILTER_BITS)
        counts = np.bincount(self._bucket.astype(np.int64), minlength=1 << _FILTER_BITS)
        self._is_filled = counts > 0
        self._first = (np.cumsum(counts) - counts).astype(np.int32)
        self._most = int(counts.max(initial=0))

    def look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the places of wanted hashes, in order, and which they are."""
        buckets = (hashes >> np.uint64(64 - _FILTER_BITS)).astype(np.int64)
        places = np.flatnonzero(self._is_filled.take(buckets))
        hashes, first = hashes[places], self._first[buckets[places]]
        which = np.full(len(places), -1)
        for step in range(self._most):
            entry = np.minimum(first + step, len(self._hashes) - 1)
            which = np.where(self._hashes[entry] == hashes, entry, which)
        found = which >= 0
        return places[found], which[found]

    def verified(self, codes: np.ndarray, which: np.ndarray, starts: np.ndarray,
                 ends: np.ndarray) -> Places:
        """Keep what is equal character by character: entry, begin and end."""
        lengths = self._lengths[which]
        same = lengths == ends - starts
        if not same.all():
            which, starts, ends = which[same], starts[same], ends[same]
            lengths = lengths[same]
        before = np.cumsum(lengths) - lengths
        steps = np.arange(lengths.sum())
        equal = (codes[np.repeat(starts - before, lengths) + steps]
                 == self._characters[np.repeat(self._places[which] - before, lengths) + steps])
        if not equal.all():
            whole = np.logical_and.reduceat(equal, before)
            which, starts, ends = which[whole], starts[whole], ends[whole]
        return self._entries[which], starts, ends


class _Powers:
    """Hashes of stretches by running sums: that of characters c is the sum of c_i base^(i+1)."""

    def __init__(self, most: int) -> None:
        self.most = most
        factors = np.full(most + 1, _BASE, dtype=np.uint64)
        self._powers = np.cumprod(factors)
        factors[:] = pow(_BASE, -1, _MODULUS)
        factors[0] = 1
        self._inverse = np.cumprod(factors)

    def sums(self, codes: np.ndarray) -> np.ndarray:
        """Running sums, (characters + 1,)."""
        sums = np.zeros(len(codes) + 1, dtype=np.uint64)
        np.multiply(codes, self._powers[:len(codes)], out=sums[1:], dtype=np.uint64)
        np.cumsum(sums[1:], out=sums[1:])
        return sums

    def hashes(self, sums: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Hash stretches of what was summed."""
        return (sums[ends] - sums[starts]) * self._inverse[starts]

    def hash(self, codes: np.ndarray) -> np.uint64:
        return np.uint64(self.sums(codes)[-1])


def _runs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of runs of characters between borders."""
    inner = np.zeros(len(codes) + 2, dtype=bool)
    np.greater_equal(codes, WORD, out=inner[1:-1])
    if codes.max(initial=0) >= UNSPACED:
        inner[1:-1] &= codes < UNSPACED
    edges = np.flatnonzero(inner[1:] != inner[:-1])
    return edges[::2], edges[1::2]


def _touched(codes: np.ndarray, inner: np.ndarray, step: int) -> np.ndarray:
    """Whether a letter of a spaced script stands beside a character that is none of the others."""
    padded = np.concatenate([[0], codes, [0]])
    outer = padded[inner + 1 + step]
    return (outer >= WORD) & (outer < UNSPACED) & (codes[inner] < UNSPACED)


def _untouched(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Whether no letter of a spaced script touches stretches, (stretches,) bool."""
    padded = np.concatenate([[0], codes, [0]])
    around = np.stack([padded[starts], padded[ends + 1]])
    return np.logical_not(((around >= WORD) & (around < UNSPACED)).any(axis=0))


def _single_spaced(codes: np.ndarray) -> np.ndarray:
    """Where characters stand that are no white space after white space."""
    is_space = codes == ord(" ")
    is_space[1:] &= is_space[:-1]
    is_space[:1] = False
    return np.flatnonzero(~is_space)


def _word_borders(text: str, segment: Segment) -> set[int]:
    """Where words may begin and end; white space is a border, whatever word it belongs to."""
    blanks = [place for place, one in enumerate(text) if one.isspace()]
    return {0, len(text), *segment(text), *blanks, *(place + 1 for place in blanks)}


def _joined(found: Iterable[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    empty = (np.zeros(0, dtype=np.int64),) * 3
    return [np.concatenate(column) for column in zip(empty, *found, strict=True)]


def _located(words: np.ndarray, starts: np.ndarray, ends: np.ndarray, folded: Folded,
             joined: str, origins: np.ndarray) -> Matches:
    """Turn places among folded characters into places in their texts."""
    first, last = folded.places(starts), folded.places(ends)
    if folded.origin is not None:
        # A word may end within what a character became.
        last = np.maximum(last, folded.places(ends - 1) + 1)
        # What vanished behind a word is its own only if it is a mark.
        loose = np.flatnonzero(last - folded.places(ends - 1) > 1)
        for number in loose.tolist():
            last[number] = _without_rest(joined, int(first[number]), int(last[number]))
    texts = np.searchsorted(origins, first, side="right") - 1
    within = np.searchsorted(origins, last - 1, side="right") - 1 == texts
    matches = Matches(words.astype(np.int32), texts.astype(np.int32), first - origins[texts],
                      last - origins[texts])
    return matches if within.all() else _taken(matches, within)


def _without_rest(text: str, start: int, end: int) -> int:
    while end - 1 > start and not (text[end - 1].isprintable() and text[end - 1] != " "):
        end -= 1
    return end


def _taken(matches: Matches, which: np.ndarray) -> Matches:
    return Matches(matches.words[which], matches.texts[which], matches.starts[which],
                   matches.ends[which])
