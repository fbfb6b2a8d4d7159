"""Reservoir sampling: for each word, the positions with the lowest priorities."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import pairwise
from typing import IO

import numpy as np

Hit = tuple[int, int, int, int]
"""A word's number, its priority in the sample, and its begin and end."""

HIGHEST = (1 << 64) - 1
"""The highest possible priority."""
_ENTRY_BITS = 40
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1


@dataclass(frozen=True)
class Stretch:
    """Consecutive sentences with some that may be sampled; split after all text is read.

    Args:
        start: its first character in the record's text.
        line: its record as JSON, without its words.
        hits: words in its sentences; each hit may put its sentence into the sample.
    """

    start: int
    line: bytes
    hits: list[Hit]


class Reservoir:
    """Positions with the lowest priorities of each word; a stretch is stored once for all words.

    Args:
        words: number of words.
        size: number of positions kept for a word.
        spool: empty file in which the stretches are stored.
    """

    def __init__(self, words: int, size: int, spool: IO[bytes]) -> None:
        self._size = size
        self._spool = spool
        self._end = 0
        # The highest priority is first. The low bits of each number are the entry.
        self._heaps: list[list[int]] = [[] for _ in range(words)]
        # For each entry: the number of its stretch, and the word's begin and end in the stretch.
        self._stretches, self._begins, self._ends = array("q"), array("q"), array("q")
        # For each stretch: its offset in the file, its start in its text, and its entry count.
        self._offsets, self._starts, self._uses = array("q"), array("q"), array("q")
        self._free: list[int] = []

    def size(self, word: int) -> int:
        """Return the number of positions kept for a word."""
        return len(self._heaps[word])

    def offer(self, stretch: Stretch) -> None:
        """Keep a stretch for each word whose priority in it is among the lowest."""
        number = -1
        for word, priority, start, end in stretch.hits:
            heap = self._heaps[word]
            rank = HIGHEST - priority
            is_full = len(heap) == self._size
            if is_full and rank <= heap[0] >> _ENTRY_BITS:
                continue
            if number < 0:
                number = self._store(stretch)
            self._uses[number] += 1
            if is_full:
                entry = heap[0] & _ENTRY_MASK
                replaced = self._stretches[entry]
                self._uses[replaced] -= 1
                if not self._uses[replaced]:
                    self._free.append(replaced)
                self._stretches[entry], self._begins[entry], self._ends[entry] = number, start, end
                heapreplace(heap, rank << _ENTRY_BITS | entry)
            else:
                heappush(heap, rank << _ENTRY_BITS | len(self._stretches))
                self._stretches.append(number)
                self._begins.append(start)
                self._ends.append(end)

    def sampled(self) -> Iterator[tuple[int, bytes, list[tuple[int, int, int]]]]:
        """Yield stretches in order: start in the text, line, and (begin, end, word) of each hit."""
        words = np.repeat(np.arange(len(self._heaps)), [len(heap) for heap in self._heaps])
        entries = np.fromiter((item & _ENTRY_MASK for heap in self._heaps for item in heap),
                              np.int64, len(words))
        stretches, begins, ends = (np.array(column, dtype=np.int64)[entries]
                                   for column in (self._stretches, self._begins, self._ends))
        offsets = np.array(self._offsets, dtype=np.int64)
        order = np.lexsort((words, ends, begins, offsets[stretches]))
        borders = np.flatnonzero(np.diff(stretches[order], prepend=-1, append=-1)).tolist()
        for first, last in pairwise(borders):
            own = order[first:last]
            number = int(stretches[own[0]])
            self._spool.seek(offsets[number])
            yield self._starts[number], self._spool.readline(), list(zip(
                begins[own].tolist(), ends[own].tolist(), words[own].tolist(), strict=True))

    def _store(self, stretch: Stretch) -> int:
        if not self._free:
            self._free.append(len(self._offsets))
            for column in (self._offsets, self._starts, self._uses):
                column.append(0)
        number = self._free.pop()
        self._offsets[number], self._starts[number] = self._end, stretch.start
        self._end += self._spool.write(stretch.line)
        return number


def word_keys(words: Iterable[str], seed: int) -> np.ndarray:
    """Return a key for each word, (words,) uint64, which does not depend on the other words."""
    keys = [hashlib.blake2b(f"{seed} {word}".encode(), digest_size=8).digest() for word in words]
    return np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64)
