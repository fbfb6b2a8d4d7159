"""Packing of samples into sequences with hardly any padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PackedPart:
    """Tokens of a sample that go into one sequence: from `start`, counted within the sample."""

    sample: int
    start: int
    length: int


Cut = Callable[[int, int], int]
"""Takes a sample and a wanted offset; returns the offset at or before it for a cut."""


def pack(lengths: Sequence[int] | np.ndarray, capacity: int, overhead: int,
         cut: Cut | None) -> tuple[list[list[PackedPart]], list[PackedPart]]:
    """Fill sequences with samples, best fit first, and cut one where a gap would stay.

    Each sequence begins with the longest part; the longest ones that fit follow, until none
    does; then the rest of the sequence, if large enough, is filled from the longest part. So
    few documents are cut, and sequences are full but for a few tokens. Parts that do not fill a
    sequence are left over; the caller passes them again with later samples.

    Args:
        lengths: tokens of each sample, special tokens left out.
        capacity: tokens of a sequence, special tokens included.
        overhead: special tokens of each part.
        cut: finds offsets for cuts; None forbids cuts, then all samples must fit a sequence.

    Returns:
        full sequences, and the parts left over.
    """
    parts = _PartsByLength(capacity - overhead)
    for number, length in enumerate(lengths):
        parts.put(PackedPart(number, 0, int(length)))
    total = int(np.sum(lengths)) + overhead * len(lengths)
    smallest = max(overhead + 4, capacity // 32)
    sequences = []
    while total >= capacity:
        sequences.append(_fill(parts, capacity, overhead, smallest, cut))
        total = parts.tokens + overhead * parts.count
    left_over = [part for by_length in parts.by_length for part in by_length]
    return sequences, sorted(left_over, key=lambda part: (part.sample, part.start))


def _fill(parts: _PartsByLength, capacity: int, overhead: int, smallest: int,
          cut: Cut | None) -> list[PackedPart]:
    sequence: list[PackedPart] = []
    gap = capacity
    while gap > overhead and parts.count:
        part = parts.take(gap - overhead if sequence else None)
        if part is None and (cut is None or gap < smallest):
            break
        if part is None or part.length + overhead > gap:
            part = part or parts.take(None)
            assert part is not None and cut is not None
            head, rest = _split(part, gap - overhead, smallest - overhead, cut)
            parts.put(rest)
            if head is None:
                break
            part = head
        sequence.append(part)
        gap -= part.length + overhead
    return sequence


def _split(part: PackedPart, room: int, least: int,
           cut: Cut) -> tuple[PackedPart | None, PackedPart]:
    """Split a part that is longer than the room; neither half is shorter than `least`."""
    wanted = part.start + min(room, part.length - least)
    length = cut(part.sample, wanted) - part.start
    if length < least:
        length = min(room, part.length - least)
    if length < least:
        return None, part
    return (PackedPart(part.sample, part.start, length),
            PackedPart(part.sample, part.start + length, part.length - length))


class _PartsByLength:
    """Parts by length; finds the longest, or the longest that fits, without a search.

    One bit for each length marks the lengths present. Parts longer than a sequence share one.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest + 1
        self.by_length: list[list[PackedPart]] = [[] for _ in range(self._longest + 1)]
        self._present = 0
        self.count = 0
        self.tokens = 0

    def put(self, part: PackedPart) -> None:
        length = min(part.length, self._longest)
        self.by_length[length].append(part)
        self._present |= 1 << length
        self.count += 1
        self.tokens += part.length

    def take(self, room: int | None) -> PackedPart | None:
        """Take the longest part of all, or the longest of at most `room` tokens."""
        present = self._present if room is None else self._present & ((1 << (room + 1)) - 1)
        if not present:
            return None
        length = present.bit_length() - 1
        part = self.by_length[length].pop()
        if not self.by_length[length]:
            self._present &= ~(1 << length)
        self.count -= 1
        self.tokens -= part.length
        return part
