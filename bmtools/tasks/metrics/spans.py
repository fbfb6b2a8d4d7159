"""Overlaps of mentions, words of texts, and arithmetic of scores.

A mention is a tuple of the number of its text, start, end and type; the end is exclusive.
Duplicates count once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from bmtools.records import JsonObject
from bmtools.statistics.lines import DIGITS

Mention = tuple[int, int, int, str]
Span = tuple[int, int]
Typed = tuple[int, int, str]


class Overlaps(NamedTuple):
    """Coverage of each side's mentions by the other side's mentions of their type.

    Args:
        gold: of each gold mention, the F1 by characters of the best prediction; 0 without overlap.
        predicted: of each prediction, that of the best gold mention.
    """

    gold: list[float]
    predicted: list[float]


def find_overlaps(gold: Iterable[Mention],
                  predicted: Iterable[Mention]) -> dict[tuple[int, str], Overlaps]:
    """Compare each mention with the mentions of the other side that have its text and type.

    The F1 of two mentions has the share of the gold one's characters that the prediction covers as
    recall, and the share of the prediction's characters in the gold one as precision. Mentions are
    not matched one to one.

    Source: MultiClinAI at SMM4H-HeaRD 2026, whose character-overlap F1 this is.

    Returns:
        overlaps by text and type.
    """
    expected, found = _by_text_and_type(gold), _by_text_and_type(predicted)
    return {key: Overlaps([*_best_overlaps(expected.get(key, []), found.get(key, []))],
                          [*_best_overlaps(found.get(key, []), expected.get(key, []))])
            for key in dict.fromkeys([*expected, *found])}


def _by_text_and_type(mentions: Iterable[Mention]) -> dict[tuple[int, str], list[Span]]:
    groups: dict[tuple[int, str], list[Span]] = defaultdict(list)
    for text, start, end, kind in sorted(dict.fromkeys(mentions), key=lambda one: one[1:]):
        groups[text, kind].append((start, end))
    return groups


def _best_overlaps(spans: Sequence[Span], others: Sequence[Span]) -> Iterator[float]:
    """Yield each span's F1 by characters with the best of the others, which are sorted."""
    starts = [start for start, _ in others]
    longest = max((end - start for start, end in others), default=0)
    for start, end in spans:
        near = others[bisect_left(starts, start - longest):bisect_left(starts, end)]
        # Twice the intersection over both lengths is the F1 of its shares of either.
        yield max((2 * max(0, min(end, last) - max(start, first)) / (end - start + last - first)
                   for first, last in near), default=0.0)


def find_words(text: str) -> list[Span]:
    """Find the words of a text whose tokens are separated by white space."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def find_tokens(text: str) -> list[Span]:
    """Find the words of running text, and its signs one by one."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def words_in(words: Sequence[Span], entities: Iterable[Typed]) -> set[tuple[int, str]]:
    """Name the words that entities cover or touch, by number and type."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    return {(word, kind) for start, end, kind in entities
            for word in range(bisect_right(ends, start), bisect_left(starts, end))}


Scores = JsonObject


def divide(numerator: ArrayLike, denominator: ArrayLike) -> np.ndarray:
    """Divide element by element; 0 where the denominator is 0, as precision without predictions."""
    upper, lower = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(upper, lower, out=np.zeros(lower.shape), where=lower != 0)


def rounded(value: SupportsFloat) -> float:
    """Round a score for output."""
    return round(float(value), DIGITS)
