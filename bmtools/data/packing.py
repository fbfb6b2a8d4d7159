"""Documents side by side in rows, so that hardly a place stays empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PackedPart:
    """Tokens of a sample that go into one row: from `first`, counted within the sample."""

    sample: int
    first: int
    length: int


Cut = Callable[[int, int], int]
"""Says where a sample can be cut: sample and wanted offset in; an offset at or before it out."""


@dataclass(frozen=True)
class PackedSequences:
    """Rows that are full, and the parts that found no place in one."""

    rows: list[list[PackedPart]]
    left: list[PackedPart]


def pack(lengths: Sequence[int] | np.ndarray, capacity: int, overhead: int,
         cut: Cut | None) -> PackedSequences:
    """Fill rows with samples, best fit first, and cut one where a gap would stay.

    Each row opens with the longest part there is; then the longest that fits follows, until
    nothing does; then what is left of the row, if it is worth a part, is filled from the longest.
    So documents are cut only where they must be, and rows are full but for a few tokens. What
    cannot fill a row is left over, for the caller to bring again with later samples.

    Args:
        lengths: tokens of each sample, special tokens left out.
        capacity: tokens of a row, special tokens included.
        overhead: special tokens that each part brings.
        cut: where a sample can be cut; None where none can, and all fit a row.
    """
    shelf = _PartsByLength(capacity - overhead)
    for number, length in enumerate(lengths):
        shelf.put(PackedPart(number, 0, int(length)))
    total = int(np.sum(lengths)) + overhead * len(lengths)
    smallest = max(overhead + 4, capacity // 32)
    rows = []
    while total >= capacity:
        row = _fill(shelf, capacity, overhead, smallest, cut)
        rows.append(row)
        total = shelf.tokens + overhead * len(shelf)
    return PackedSequences(rows, sorted(shelf.rest(), key=lambda part: (part.sample, part.first)))


def _fill(shelf: _PartsByLength, capacity: int, overhead: int, smallest: int,
          cut: Cut | None) -> list[PackedPart]:
    row: list[PackedPart] = []
    gap = capacity
    while gap > overhead and len(shelf):
        part = shelf.take(gap - overhead if row else None)
        if part is None and (cut is None or gap < smallest):
            break
        if part is None or part.length + overhead > gap:
            part = part or shelf.take(None)
            assert part is not None and cut is not None
            head, rest = _halves(part, gap - overhead, smallest - overhead, cut)
            shelf.put(rest)
            if head is None:
                break
            part = head
        row.append(part)
        gap -= part.length + overhead
    return row


def _halves(part: PackedPart, room: int, least: int, cut: Cut) -> tuple[PackedPart | None,
                                                                        PackedPart]:
    """Cut a part that is longer than the room; neither half is shorter than `least`."""
    wanted = part.first + min(room, part.length - least)
    length = cut(part.sample, wanted) - part.first
    if length < least:
        length = min(room, part.length - least)
    if length < least:
        return None, part
    return (PackedPart(part.sample, part.first, length),
            PackedPart(part.sample, part.first + length, part.length - length))


class _PartsByLength:
    """Parts by length; finds the longest, or the longest that fits, without a search.

    A bit for each length says whether there is one. Parts longer than a row share one place.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest + 1
        self._places: list[list[PackedPart]] = [[] for _ in range(self._longest + 1)]
        self._present = 0
        self._count = 0
        self.tokens = 0

    def __len__(self) -> int:
        return self._count

    def put(self, part: PackedPart) -> None:
        place = min(part.length, self._longest)
        self._places[place].append(part)
        self._present |= 1 << place
        self._count += 1
        self.tokens += part.length

    def take(self, room: int | None) -> PackedPart | None:
        """Take the longest part of all, or the longest of at most `room` tokens."""
        present = self._present if room is None else self._present & ((1 << (room + 1)) - 1)
        if not present:
            return None
        place = present.bit_length() - 1
        part = self._places[place].pop()
        if not self._places[place]:
            self._present &= ~(1 << place)
        self._count -= 1
        self.tokens -= part.length
        return part

    def rest(self) -> list[PackedPart]:
        return [part for place in self._places for part in place]
