"""Packing of samples into sequences with hardly any padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Parts:
    """Tokens of samples, and the sequence of each.

    Args:
        samples: (parts,) numbers of samples.
        starts: (parts,) first token of each part within its sample.
        lengths: (parts,) tokens of each part.
        sequences: (parts,) number of the sequence, or -1 for parts that are left over.
    """

    samples: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    sequences: np.ndarray

    def __getitem__(self, chosen: np.ndarray) -> Parts:
        """Select parts by their indices or by a mask."""
        return Parts(self.samples[chosen], self.starts[chosen], self.lengths[chosen],
                     self.sequences[chosen])


def pack(lengths: np.ndarray, capacity: int, overhead: int, cut: Cut | None) -> Parts:
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
        all parts by their sequences, those left over first, each time in the order of samples.
    """
    packing = _Packing(np.asarray(lengths, dtype=np.int64), capacity, overhead, cut)
    while packing.begin_sequences():
        packing.fit()
        while packing.cut_into_gaps():
            packing.fit()
    return packing.parts()


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
        self._heads: list[Parts] = []
        parts = Parts(np.arange(len(lengths)), np.zeros_like(lengths), lengths.copy(),
                      np.full_like(lengths, -1))
        self._parts = parts if cut is None else self._cut_long(parts, cut)
        self._wait(np.arange(len(self._parts.lengths)))
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
        parts = self._parts[longest]
        heads = self._head_lengths(parts, self._gaps[widest] - self._overhead, self._cut)
        cut = np.flatnonzero(heads)
        heads, longest, widest = heads[cut], longest[cut], widest[cut]
        self._heads.append(Parts(parts.samples[cut], parts.starts[cut], heads,
                                 self._numbers[widest]))
        self._gaps[widest] = 0
        self._parts.starts[longest] += heads
        self._parts.lengths[longest] -= heads
        self._wait(self._waiting)
        return len(cut) > 0

    def parts(self) -> Parts:
        """Return all parts, sorted."""
        every = _concatenate([self._parts, *self._heads])
        return every[np.lexsort((every.starts, every.samples, every.sequences))]

    def _wait(self, parts: np.ndarray) -> None:
        """Let parts wait, the shortest first."""
        sizes = self._parts.lengths[parts] + self._overhead
        order = _ascending(sizes, self._capacity)
        self._waiting, self._sizes = parts[order], sizes[order]

    def _place(self, places: np.ndarray, sequences: np.ndarray) -> None:
        """Move parts, by their places in the queue, into sequences."""
        self._parts.sequences[self._waiting[places]] = sequences
        stays = np.ones(len(self._waiting), dtype=bool)
        stays[places] = False
        self._waiting, self._sizes = self._waiting[stays], self._sizes[stays]

    def _cut_long(self, parts: Parts, cut: Cut) -> Parts:
        """Cut samples longer than a sequence into parts that fill one, and a rest."""
        longest = self._capacity - self._overhead
        parts = _cut_coarsely(parts, _MOST_CUTS * longest, cut)
        done = []
        while True:
            fits = parts.lengths <= longest
            done.append(parts[fits])
            parts = parts[~fits]
            if not len(parts.lengths):
                return _concatenate(done)
            heads = self._head_lengths(parts, np.full_like(parts.lengths, longest), cut)
            done.append(Parts(parts.samples, parts.starts, heads, parts.sequences))
            parts = Parts(parts.samples, parts.starts + heads, parts.lengths - heads,
                          parts.sequences)

    def _head_lengths(self, parts: Parts, rooms: np.ndarray, cut: Cut) -> np.ndarray:
        """Find where to cut parts that are longer than the room; 0 where they are too short.

        Neither half is shorter than the least.
        """
        wanted = np.minimum(rooms, parts.lengths - self._least)
        heads = cut(parts.samples, parts.starts + wanted) - parts.starts
        heads = np.where(heads < self._least, wanted, heads)
        return np.where(heads < self._least, 0, heads)


def _cut_coarsely(parts: Parts, longest: int, cut: Cut) -> Parts:
    """Cut whole samples into as few and about equal parts as are not much longer than `longest`."""
    counts = np.maximum(-(-parts.lengths // longest), 1)
    if (counts == 1).all():
        return parts
    pieces = parts[np.repeat(np.arange(len(counts)), counts)]
    numbers = ranges(np.zeros_like(counts), counts)
    pieces.starts[:] = numbers * pieces.lengths // counts.repeat(counts)
    inner = np.flatnonzero(numbers)
    pieces.starts[inner] = cut(pieces.samples[inner], pieces.starts[inner])
    ends = np.append(pieces.starts[1:], 0)
    ends[offsets(counts)[1:] - 1] = parts.lengths
    pieces.lengths[:] = ends - pieces.starts
    return pieces


def _concatenate(every: Sequence[Parts]) -> Parts:
    return Parts(*(np.concatenate([getattr(parts, name) for parts in every])
                   for name in ("samples", "starts", "lengths", "sequences")))


def _ascending(numbers: np.ndarray, most: int) -> np.ndarray:
    """Return the order of numbers up to `most`. numpy sorts 16 bits by counting."""
    return np.argsort(numbers.astype(np.min_scalar_type(most)), kind="stable")
