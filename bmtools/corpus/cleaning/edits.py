"""Edits of a text, and the offsets that move with it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from operator import itemgetter

Edit = tuple[int, int, int]  # start, end, length of the replacement


class EditedText:
    """A text under repair, with counts of what was done and where.

    Args:
        text: before any repair.
        tracks: whether spans will be followed; without, it is faster.

    Attributes:
        text: as it is now.
        counts: places changed, by rule.
    """

    def __init__(self, text: str, tracks: bool = True) -> None:
        self.text = text
        self._tracks = tracks
        self.counts: Counter[str] = Counter()
        self._passes: list[list[tuple[int, str, str]]] = []

    def substitute(self, rule: str, pattern: re.Pattern[str],
                   replace: str | Callable[[re.Match[str]], str]) -> None:
        """Replace all matches of a pattern, and count those that changed under a rule's name.

        A pattern must not match what is to be put in its place, if that is a string.
        """
        if not self._tracks and isinstance(replace, str):
            self.text, count = pattern.subn(replace, self.text)
            if count:
                self.counts[rule] += count
            return
        edits: list[tuple[int, str, str]] = []

        def note(found: re.Match[str]) -> str:
            before = found[0]
            after = replace if isinstance(replace, str) else replace(found)
            if after != before:
                edits.append((found.start(), before, after))
            return after

        changed = pattern.sub(note, self.text)
        if edits:
            self.text = changed
            self.counts[rule] += len(edits)
            self._passes.append(edits)

    @cached_property
    def _moves(self) -> list[tuple[list[Edit], list[int]]]:
        """The edits of each pass, and by how much what follows each of them moves."""
        passes = [[_smallest(*edit) for edit in edits] for edits in self._passes]
        return [(edits, list(accumulate((length - (end - start) for start, end, length in edits),
                                        initial=0))) for edits in passes]

    def moved(self, start: int, end: int) -> tuple[int, int, bool]:
        """Follow a span through all repairs, once they are done.

        Returns:
            its start and end now, and whether a border stood within something that was replaced.
        """
        assert self._tracks
        is_cut = False
        for edits, shifts in self._moves:
            start, start_cut = _moved(start, edits, shifts, to_end=True)
            end, end_cut = _moved(end, edits, shifts, to_end=False)
            is_cut = is_cut or start_cut or end_cut
        return start, max(start, end), is_cut


def _smallest(start: int, before: str, after: str) -> Edit:
    """Leave out of an edit what begins or ends before and after it alike."""
    first = _shared(before, after)
    last = _shared(before[first:][::-1], after[first:][::-1])
    return start + first, start + len(before) - last, len(after) - first - last


def _shared(one: str, other: str) -> int:
    """Count the characters that two strings have in common at their start."""
    differ = (number for number, pair in enumerate(zip(one, other, strict=False))
              if pair[0] != pair[1])
    return next(differ, min(len(one), len(other)))


def _moved(position: int, edits: Sequence[Edit], shifts: Sequence[int],
           to_end: bool) -> tuple[int, bool]:
    """Move a position by the edits of one pass; one within an edit goes to its end or start."""
    number = bisect_left(edits, position, key=itemgetter(1))
    shift = shifts[number]
    if number < len(edits):
        start, end, length = edits[number]
        if end == position:
            return position + shifts[number + 1], False
        if start < position and length != end - start:
            return start + shift + (length if to_end else 0), True
    return position + shift, False
