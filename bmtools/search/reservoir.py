"""The draw: of each word the places with the lowest priorities, which depend on names alone."""

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
"""A word's number, its priority in the draw, and its begin and end."""

HIGHEST = (1 << 64) - 1
"""The highest priority there can be."""
_TICKET_BITS = 40


@dataclass(frozen=True)
class Stretch:
    """Some sentences, of which some may be drawn; they are parted only when all is read.

    Args:
        start: where it begins in the record's text.
        line: what is written of it, as JSON without its words.
        hits: words for which its sentences may be drawn, each in one.
    """

    start: int
    line: bytes
    hits: list[Hit]


class Reservoir:
    """The places with the lowest priorities of each word; a stretch is held once for all.

    Args:
        words: how many there are.
        most: places kept for a word.
        spool: an empty file, for the stretches.
    """

    def __init__(self, words: int, most: int, spool: IO[bytes]) -> None:
        self._most = most
        self._spool = spool
        self._end = 0
        # The highest priority first, and below it, in the same number, a ticket.
        self._heaps: list[list[int]] = [[] for _ in range(words)]
        # What a ticket says: the number of the stretch, and where the word stands in it.
        self._places, self._begins, self._ends = array("q"), array("q"), array("q")
        # Where each stretch lies in the file, where it begins in its text, and its tickets.
        self._offsets, self._starts, self._uses = array("q"), array("q"), array("q")
        self._free: list[int] = []

    def size(self, word: int) -> int:
        """How many places are held for a word."""
        return len(self._heaps[word])

    def offer(self, stretch: Stretch) -> None:
        """Take a stretch for those of its words where it is among the lowest."""
        place = -1
        for word, priority, start, end in stretch.hits:
            heap = self._heaps[word]
            rank = HIGHEST - priority
            full = len(heap) == self._most
            if full and rank <= heap[0] >> _TICKET_BITS:
                continue
            if place < 0:
                place = self._hold(stretch)
            self._uses[place] += 1
            if full:
                ticket = _ticket_of(heap[0])
                self._release(self._places[ticket])
                self._places[ticket], self._begins[ticket], self._ends[ticket] = place, start, end
                heapreplace(heap, rank << _TICKET_BITS | ticket)
            else:
                heappush(heap, rank << _TICKET_BITS | len(self._places))
                self._places.append(place)
                self._begins.append(start)
                self._ends.append(end)

    def drawn(self) -> Iterator[tuple[int, bytes, list[tuple[int, int, int]]]]:
        """Give stretches in order: begin in the text, line, and begin, end and number of words."""
        words = np.repeat(np.arange(len(self._heaps)), [len(heap) for heap in self._heaps])
        tickets = np.fromiter((_ticket_of(entry) for heap in self._heaps for entry in heap),
                              np.int64, len(words))
        places, starts, ends = (np.array(column, dtype=np.int64)[tickets]
                                for column in (self._places, self._begins, self._ends))
        offsets = np.array(self._offsets, dtype=np.int64)
        order = np.lexsort((words, ends, starts, offsets[places]))
        borders = np.flatnonzero(np.diff(places[order], prepend=-1, append=-1)).tolist()
        for first, last in pairwise(borders):
            own = order[first:last]
            place = int(places[own[0]])
            self._spool.seek(offsets[place])
            yield self._starts[place], self._spool.readline(), list(zip(
                starts[own].tolist(), ends[own].tolist(), words[own].tolist(), strict=True))

    def _hold(self, stretch: Stretch) -> int:
        if not self._free:
            self._free.append(len(self._offsets))
            for column in (self._offsets, self._starts, self._uses):
                column.append(0)
        place = self._free.pop()
        self._offsets[place], self._starts[place] = self._end, stretch.start
        self._end += self._spool.write(stretch.line)
        return place

    def _release(self, place: int) -> None:
        self._uses[place] -= 1
        if not self._uses[place]:
            self._free.append(place)


def word_keys(words: Iterable[str], seed: int) -> np.ndarray:
    """Give each word a key of its own, (words,) uint64, whatever the other words are."""
    keys = [hashlib.blake2b(f"{seed} {word}".encode(), digest_size=8).digest() for word in words]
    return np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64)


def _ticket_of(entry: int) -> int:
    return entry & ((1 << _TICKET_BITS) - 1)
