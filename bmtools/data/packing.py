"""Packing of samples into sequences with hardly any padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bmtools.ragged import offsets, ranges

Cut = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Takes samples and an offset in each; returns word starts at those offsets or shortly before.

An offset without a word start close by is kept.
"""
_MOST_CUTS = 64
"""Sequences that a sample is cut into one after the other; a longer one at several places."""
_SHARE_AT_ONCE = 1 / 16
_LEAST_AT_ONCE = 32
"""Sequences that are filled together.

One at a time has the best fit, but is slow; all at once cut a fifth more abstracts, and leave 5 %
of sequences of pairs empty.
"""


PART = np.dtype([("sample", "i8"), ("start", "i8"), ("length", "i8"), ("sequence", "i8")])
"""Tokens of a sample: its number, the first token within it and their count.

`sequence` is the number of their sequence, or -1 for parts that are left over.
"""


def pack(lengths: np.ndarray, capacity: int, overhead: int, cut: Cut | None) -> np.ndarray:
    """Fill sequences with samples, best fit first, and cut one where a gap would stay.

    Sequences begin with the longest parts; the longest ones that fit follow, until none does;
    then the rest of a sequence, if large enough, is filled from the longest part. So few
    documents are cut, and sequences are full but for a few tokens. Parts that do not fill a
    sequence are left over; the caller passes them again with later samples.

    Args:
        lengths: (samples,) tokens of each, special tokens left out.
        capacity: tokens of a sequence, special tokens included.
        overhead: special tokens of each part.
        cut: finds offsets for cuts; None forbids cuts, then all samples must fit a sequence.

    Returns:
        (parts,) of PART by their sequences, those left over first, each time in the order of
        samples.
    """
    packing = _Packing(lengths, capacity, overhead, cut)
    while packing.begin_sequences():
        packing.fit()
        while packing.cut_into_gaps():
            packing.fit()
    every = np.concatenate([packing.parts, *packing.heads])
    return every[np.lexsort((every["start"], every["sample"], every["sequence"]))]


class _Packing:
    """Parts that wait, and sequences that are being filled.

    Args as for `pack`.
    """

    def __init__(self, lengths: np.ndarray, capacity: int, overhead: int, cut: Cut | None) -> None:
        self._capacity = capacity
        self._overhead = overhead
        self._cut = cut
        # Tokens of the shortest part of a cut.
        self._least = min(max(4, capacity // 32 - overhead), (capacity - overhead) // 2)
        self.heads: list[np.ndarray] = []
        parts = np.zeros(len(lengths), dtype=PART)
        parts["sample"], parts["length"], parts["sequence"] = np.arange(len(lengths)), lengths, -1
        self.parts = parts if cut is None else self._cut_long(parts, cut)
        self._wait(np.arange(len(self.parts)))
        self._gaps = self._numbers = np.empty(0, dtype=np.int64)
        self._count = 0

    def begin_sequences(self) -> int:
        """Begin sequences with the longest parts, as far as there are tokens to fill them."""
        count = int(self._sizes.sum()) // self._capacity
        count = min(count, max(round(count * _SHARE_AT_ONCE), _LEAST_AT_ONCE))
        first = len(self._sizes) - count
        self._gaps = self._capacity - self._sizes[first:]
        self._numbers = np.arange(self._count, self._count + count)
        self._count += count
        self._place(np.arange(first, len(self._sizes)), self._numbers)
        return count

    def fit(self) -> None:
        """Put the longest part that fits into each sequence, until none fits."""
        while len(self._gaps) and len(self._sizes):
            # Wide gaps first. Each takes the longest part that fits and that none before took:
            # taken[n] = min(fitting[n], taken[n - 1] - 1).
            order = _ascending(self._gaps, self._capacity)[::-1]
            self._gaps, self._numbers = self._gaps[order], self._numbers[order]
            fitting = np.searchsorted(self._sizes, self._gaps, side="right") - 1
            turns = np.arange(len(fitting))
            taken = np.minimum.accumulate(fitting + turns) - turns
            taken = taken[:np.count_nonzero(taken >= 0)]
            if not len(taken):
                return
            self._gaps[:len(taken)] -= self._sizes[taken]
            self._place(taken, self._numbers[:len(taken)])

    def cut_into_gaps(self) -> bool:
        """Fill the widest gaps from the longest parts; return whether there were any to fill."""
        if self._cut is None:
            return False
        widest = _ascending(self._gaps, self._capacity)[::-1]
        widest = widest[self._gaps[widest] >= self._least + self._overhead]
        widest = widest[:len(self._waiting)]
        longest = self._waiting[::-1][:len(widest)]
        heads = self._heads_of(self.parts[longest], self._gaps[widest] - self._overhead, self._cut)
        cut = heads["length"] > 0
        heads, longest, widest = heads[cut], longest[cut], widest[cut]
        heads["sequence"] = self._numbers[widest]
        self.heads.append(heads)
        self._gaps[widest] = 0
        self.parts["start"][longest] += heads["length"]
        self.parts["length"][longest] -= heads["length"]
        self._wait(self._waiting)
        return len(heads) > 0

    def _wait(self, parts: np.ndarray) -> None:
        """Let parts wait, the shortest first."""
        sizes = self.parts["length"][parts] + self._overhead
        order = _ascending(sizes, self._capacity)
        self._waiting, self._sizes = parts[order], sizes[order]

    def _place(self, places: np.ndarray, sequences: np.ndarray) -> None:
        """Move parts, by their places in the queue, into sequences."""
        self.parts["sequence"][self._waiting[places]] = sequences
        stays = np.ones(len(self._waiting), dtype=bool)
        stays[places] = False
        self._waiting, self._sizes = self._waiting[stays], self._sizes[stays]

    def _cut_long(self, parts: np.ndarray, cut: Cut) -> np.ndarray:
        """Cut samples longer than a sequence into parts that fill one, and a rest."""
        longest = self._capacity - self._overhead
        rests, done = _cut_coarsely(parts, _MOST_CUTS * longest, cut), []
        while len(rests):
            fits = rests["length"] <= longest
            done.append(rests[fits])
            rests = rests[~fits]
            heads = self._heads_of(rests, np.full(len(rests), longest), cut)
            done.append(heads)
            rests["start"] += heads["length"]
            rests["length"] -= heads["length"]
        return np.concatenate(done) if done else parts

    def _heads_of(self, parts: np.ndarray, rooms: np.ndarray, cut: Cut) -> np.ndarray:
        """Cut the heads off parts that are longer than the room; of 0 tokens if too short.

        Neither half is shorter than the least.
        """
        wanted = np.minimum(rooms, parts["length"] - self._least)
        lengths = cut(parts["sample"], parts["start"] + wanted) - parts["start"]
        lengths = np.where(lengths < self._least, wanted, lengths)
        heads = parts.copy()
        heads["length"] = np.where(lengths < self._least, 0, lengths)
        return heads


def _cut_coarsely(parts: np.ndarray, longest: int, cut: Cut) -> np.ndarray:
    """Cut whole samples into as few and about equal parts as are not much longer than `longest`."""
    counts = np.maximum(-(-parts["length"] // longest), 1)
    pieces = np.repeat(parts, counts)
    numbers = ranges(np.zeros_like(counts), counts)
    pieces["start"] = numbers * pieces["length"] // counts.repeat(counts)
    inner = np.flatnonzero(numbers)
    pieces["start"][inner] = cut(pieces["sample"][inner], pieces["start"][inner])
    ends = np.append(pieces["start"][1:], 0)
    ends[offsets(counts)[1:] - 1] = parts["length"]
    pieces["length"] = ends - pieces["start"]
    return pieces


def _ascending(numbers: np.ndarray, most: int) -> np.ndarray:
    """Return the order of numbers up to `most`. numpy sorts 16 bits by counting."""
    return np.argsort(numbers.astype(np.min_scalar_type(most)), kind="stable")
