"""Edits of a text, and the offsets that move with it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter

Edit = tuple[int, int, int]  # start, end, length of the replacement


class EditedText:
    """A text under repair, with counts of what was done and where.

    Args:
        text: before any repair.

    Attributes:
        text: as it is now.
        counts: places changed, by rule.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.counts: Counter[str] = Counter()
        self._passes: list[tuple[list[Edit], list[int]]] = []

    def substitute(self, rule: str, pattern: re.Pattern[str],
                   replace: str | Callable[[re.Match[str]], str]) -> None:
        """Replace all matches of a pattern, and count those that changed under a rule's name."""
        edits: list[Edit] = []

        def note(found: re.Match[str]) -> str:
            before = found[0]
            after = replace if isinstance(replace, str) else replace(found)
            if after != before:
                edits.append(_smallest(found.start(), before, after))
            return after

        changed = pattern.sub(note, self.text)
        if edits:
            self.text = changed
            self.counts[rule] += len(edits)
            gains = (length - (end - start) for start, end, length in edits)
            self._passes.append((edits, list(accumulate(gains, initial=0))))

    def moved(self, start: int, end: int) -> tuple[int, int, bool]:
        """Follow a span through all repairs.

        Returns:
            its start and end now, and whether a border stood within something that was replaced.
        """
        is_cut = False
        for edits, shifts in self._passes:
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
