"""Scores of mentions, strictly and by words, and overlaps of mentions.

A mention is a tuple of the number of its text, start, end and type; the end is exclusive.
Duplicates count once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from bmtools.records import JsonObject
from bmtools.statistics.lines import DIGITS

Mention = tuple[int, int, int, str]
Labelled = tuple[int, *tuple[Hashable, ...], str]
"""Anything of a text with a type at its end: a mention, a relation, a word or a label."""
Span = tuple[int, int]
Typed = tuple[int, int, str]


def score_spans(gold: Iterable[Labelled],
                predicted: Iterable[Labelled]) -> tuple[Scores, dict[str, Scores]]:
    """Score mentions strictly: they are correct if text, start, end and type are.

    Returns:
        scores of all mentions, and of each type in alphabetical order.
    """
    expected, found = set(gold), set(predicted)
    correct, predictions, support = (Counter(kind for *_, kind in mentions)
                                     for mentions in (expected & found, found, expected))
    by_type = {kind: score_matches(correct[kind], predictions[kind], support[kind])
               for kind in sorted(support | predictions)}
    return score_matches(len(expected & found), len(found), len(expected)), by_type


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


def score_words(gold: Iterable[Labelled], predicted: Iterable[Labelled],
                ) -> tuple[Scores, dict[str, Scores]]:
    """Score words one by one: macro F1 is the mean of the types' F1, each over all words.

    A word may have several types. Source: Gu et al. 2021, section 4.2 (BLURB's measure of PICO).

    Args:
        gold: tuples of text, word and type.
        predicted: likewise.

    Returns:
        scores of all words with `macro_f1`, and of each type in alphabetical order.
    """
    scores, by_type = score_spans(gold, predicted)
    macro = fmean(one["f1"] for one in by_type.values()) if by_type else 0.0
    return {"macro_f1": rounded(macro), **scores}, by_type


Scores = JsonObject


def divide(numerator: ArrayLike, denominator: ArrayLike) -> np.ndarray:
    """Divide element by element; 0 where the denominator is 0, as precision without predictions."""
    upper, lower = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(upper, lower, out=np.zeros(lower.shape), where=lower != 0)


def rounded(value: SupportsFloat) -> float:
    """Round a score for output."""
    return round(float(value), DIGITS)


def score_matches(correct: int, predicted: int, support: int) -> Scores:
    """Compute precision, recall and F1, rounded; each is 0 where it would divide by 0.

    Args:
        correct: predictions that equal a gold annotation.
        predicted: all predictions.
        support: all gold annotations.
    """
    return {"precision": rounded(divide(correct, predicted)),
            "recall": rounded(divide(correct, support)),
            "f1": rounded(divide(2 * correct, predicted + support)),
            "support": support, "predicted": predicted, "correct": correct}
