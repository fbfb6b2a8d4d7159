"""Overlaps of mentions, words of texts, and arithmetic of scores.

A mention is a tuple of text number, start, end (exclusive) and type. Duplicates count once.
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
    """Overlap of each mention with the mentions of its type on the other side.

    Args:
        gold: for each gold mention, its character F1 with the best prediction; 0 without overlap.
        predicted: for each prediction, its character F1 with the best gold mention.
    """

    gold: list[float]
    predicted: list[float]


def find_overlaps(gold: Iterable[Mention],
                  predicted: Iterable[Mention]) -> dict[tuple[int, str], Overlaps]:
    """Compare each mention with the other side's mentions in the same text and of the same type.

    The F1 of two mentions combines recall, the share of the gold mention's characters that the
    prediction covers, and precision, the share of the prediction's characters inside the gold
    mention. Mentions are not matched one to one.

    Source: the character-overlap F1 of MultiClinAI at SMM4H-HeaRD 2026.

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
    """Yield each span's best F1 by characters with the other spans, which are sorted."""
    starts = [start for start, _ in others]
    longest = max((end - start for start, end in others), default=0)
    for start, end in spans:
        near = others[bisect_left(starts, start - longest):bisect_left(starts, end)]
        # F1 is twice the intersection divided by the sum of both lengths.
        yield max((2 * max(0, min(end, last) - max(start, first)) / (end - start + last - first)
                   for first, last in near), default=0.0)


def find_words(text: str) -> list[Span]:
    """Find the words of a text whose tokens are separated by white space."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def find_tokens(text: str) -> list[Span]:
    """Find the words of running text, and each punctuation mark."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def words_in(words: Sequence[Span], entities: Iterable[Typed]) -> set[tuple[int, str]]:
    """Return number and type of the words that entities cover or touch."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    return {(word, kind) for start, end, kind in entities
            for word in range(bisect_right(ends, start), bisect_left(starts, end))}


Scores = JsonObject


def divide(numerator: ArrayLike, denominator: ArrayLike) -> np.ndarray:
    """Divide element by element; 0 if the denominator is 0 (precision without predictions)."""
    upper, lower = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(upper, lower, out=np.zeros(lower.shape), where=lower != 0)


def rounded(value: SupportsFloat) -> float:
    """Round a score for output."""
    return round(float(value), DIGITS)
