"""Edits of a text, and the offsets that move with them."""

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
    """A text during repairs, with counts and positions of its changes.

    Args:
        text: the text before all repairs.
        tracks: whether spans are moved later; editing is faster without.

    Attributes:
        text: the text after the repairs so far.
        counts: number of changed places, by rule.
    """

    def __init__(self, text: str, tracks: bool = True) -> None:
        self.text = text
        self._tracks = tracks
        self.counts: Counter[str] = Counter()
        self._passes: list[list[tuple[int, str, str]]] = []

    def substitute(self, rule: str, pattern: re.Pattern[str],
                   replace: str | Callable[[re.Match[str]], str]) -> None:
        """Replace all matches of a pattern, and count the changed matches under a rule's name.

        If the replacement is a string, the pattern must not match it.
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
        """The edits of each pass, and how far the text after each edit moves."""
        passes = [[_smallest(*edit) for edit in edits] for edits in self._passes]
        return [(edits, list(accumulate((length - (end - start) for start, end, length in edits),
                                        initial=0))) for edits in passes]

    def moved(self, start: int, end: int) -> tuple[int, int, bool]:
        """Move a span through all repairs, after the last repair.

        Returns:
            its new start and end, and whether one of its borders was inside replaced text.
        """
        assert self._tracks
        is_cut = False
        for edits, shifts in self._moves:
            start, start_cut = _moved(start, edits, shifts, to_end=True)
            end, end_cut = _moved(end, edits, shifts, to_end=False)
            is_cut = is_cut or start_cut or end_cut
        return start, max(start, end), is_cut


def _smallest(start: int, before: str, after: str) -> Edit:
    """Shorten an edit by the characters that are equal before and after it."""
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
    """Move a position by the edits of one pass; a position in an edit moves to its end or start."""
    number = bisect_left(edits, position, key=itemgetter(1))
    shift = shifts[number]
    if number < len(edits):
        start, end, length = edits[number]
        if end == position:
            return position + shifts[number + 1], False
        if start < position and length != end - start:
            return start + shift + (length if to_end else 0), True
    return position + shift, False
