"""Packing of samples into sequences with very little padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bmtools.ragged import offsets, ranges

Cut = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function of samples and an offset in each; returns word starts at the offsets or shortly before.

An offset without a word start close by is kept.
"""
_MOST_CUTS = 64
"""Sequences up to which a sample is cut one by one; a longer sample is first cut into parts."""
_SHARE_AT_ONCE = 1 / 16
_LEAST_AT_ONCE = 32
"""Share and minimum number of sequences that are filled together.

Filling one at a time has the best fit, but is slow. Filling all at once cuts a fifth more
abstracts, and leaves 5 % of pairs' sequences empty.
"""


PART = np.dtype([("sample", "i8"), ("start", "i8"), ("length", "i8"), ("sequence", "i8")])
"""Tokens of a sample: number of the sample, first token in it, and number of tokens.

`sequence` is the number of the sequence, or -1 for parts that are left over.
"""


def pack(lengths: np.ndarray, capacity: int, overhead: int, cut: Cut | None) -> np.ndarray:
    """Fill sequences with samples, best fit first, and cut samples to fill gaps.

    Sequences begin with the longest parts. Then the longest parts that fit are added, as long as
    possible. If the remaining gap is large enough, it is filled with the start of the longest part.
    So few documents are cut, and sequences are full except for a few tokens. Parts that do not fill
    a sequence are left over, and the caller passes them again with later samples.

    Args:
        lengths: (samples,) tokens of each, without special tokens.
        capacity: tokens of a sequence, with special tokens.
        overhead: number of special tokens of each part.
        cut: finds offsets for cuts; None forbids cuts, and then all samples must fit into a
            sequence.

    Returns:
        (parts,) of PART, sorted by sequence, with leftover parts first, and then by sample.
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

    For the arguments see `pack`.
    """

    def __init__(self, lengths: np.ndarray, capacity: int, overhead: int, cut: Cut | None) -> None:
        self._capacity = capacity
        self._overhead = overhead
        self._cut = cut
        # Minimum tokens of a part that is cut off.
        self._least = min(max(4, capacity // 32 - overhead), (capacity - overhead) // 2)
        self.heads: list[np.ndarray] = []
        parts = np.zeros(len(lengths), dtype=PART)
        parts["sample"], parts["length"], parts["sequence"] = np.arange(len(lengths)), lengths, -1
        self.parts = parts if cut is None else self._cut_long(parts, cut)
        self._wait(np.arange(len(self.parts)))
        self._gaps = self._numbers = np.empty(0, dtype=np.int64)
        self._count = 0

    def begin_sequences(self) -> int:
        """Begin sequences with the longest parts, if there are enough tokens to fill them."""
        count = int(self._sizes.sum()) // self._capacity
        count = min(count, max(round(count * _SHARE_AT_ONCE), _LEAST_AT_ONCE))
        first = len(self._sizes) - count
        self._gaps = self._capacity - self._sizes[first:]
        self._numbers = np.arange(self._count, self._count + count)
        self._count += count
        self._place(np.arange(first, len(self._sizes)), self._numbers)
        return count

    def fit(self) -> None:
        """Add the longest part that fits to each sequence, until no part fits."""
        while len(self._gaps) and len(self._sizes):
            # Wide gaps come first. Each gets the longest fitting part that earlier gaps did not
            # get: taken[n] = min(fitting[n], taken[n - 1] - 1).
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
        """Fill the widest gaps from the longest parts; return whether there were any such gaps."""
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
        """Put parts into the queue, the shortest first."""
        sizes = self.parts["length"][parts] + self._overhead
        order = _ascending(sizes, self._capacity)
        self._waiting, self._sizes = parts[order], sizes[order]

    def _place(self, places: np.ndarray, sequences: np.ndarray) -> None:
        """Move parts, by their positions in the queue, into sequences."""
        self.parts["sequence"][self._waiting[places]] = sequences
        stays = np.ones(len(self._waiting), dtype=bool)
        stays[places] = False
        self._waiting, self._sizes = self._waiting[stays], self._sizes[stays]

    def _cut_long(self, parts: np.ndarray, cut: Cut) -> np.ndarray:
        """Cut samples longer than a sequence into parts that fill a sequence, and a rest."""
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
        """Return the first tokens of parts, up to the room; 0 tokens if the parts are too short.

        Both halves have at least the minimum length.
        """
        wanted = np.minimum(rooms, parts["length"] - self._least)
        lengths = cut(parts["sample"], parts["start"] + wanted) - parts["start"]
        lengths = np.where(lengths < self._least, wanted, lengths)
        heads = parts.copy()
        heads["length"] = np.where(lengths < self._least, 0, lengths)
        return heads


def _cut_coarsely(parts: np.ndarray, longest: int, cut: Cut) -> np.ndarray:
    """Cut samples into the fewest, about equal parts that are not much longer than `longest`."""
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
