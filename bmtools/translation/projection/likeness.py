"""Likeness of words of one language, and places of words that a text has in another form."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise, takewhile

import numpy as np

from bmtools.translation.projection.links import Span, argmax_links
from bmtools.translation.projection.pairs import Projection
from bmtools.translation.projection.words import spelling, word_spans

_LEAST = 0.5
"""Share of the longer word that forms of one word have in common, from the beginning on."""
_SHORT = 4  # letters; words that have fewer are alike only where they are equal
_PULL = 0.3
"""Share of its score that a place loses at the other end of the text."""
_GAP_WEIGHT = 0.3
_CACHED = 1 << 18


@cache
def stem(word: str) -> str:
    """Fold case, and reduce a word to its spelling without the ending."""
    return spelling(word.casefold().rstrip("'\u2019") or word)


@lru_cache(_CACHED)
def form_likeness(left: str, right: str) -> float:
    """Compare two words by the beginning that they share, 0 to 1: inflection is at the end.

    Args:
        left: its stem.
        right: likewise.
    """
    if left == right:
        return 1.0
    if min(len(left), len(right)) < _SHORT:
        return 0.0
    shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1],
                                      zip(left, right, strict=False)))
    share = shared / max(len(left), len(right))
    return (1 + share) / 2 if share >= _LEAST else 0.0


def likeness_table(left: str, right: str) -> tuple[np.ndarray, list[Span], list[Span]]:
    """Compare all words of two texts, (words, words); and return the words' places."""
    places = word_spans(left), word_spans(right)
    words = [[stem(text[start:end]) for start, end in spans]
             for text, spans in zip((left, right), places, strict=True)]
    table = [[form_likeness(one, other) for other in words[1]] for one in words[0]]
    return np.array(table).reshape(len(words[0]), len(words[1])), *places


def monotone_links(table: np.ndarray) -> np.ndarray:
    """Link the words of two versions of a sentence in order, with the greatest sum of likeness.

    Args:
        table: (words, words), from `likeness_table`.
    """
    rows, columns = table.shape
    best = np.zeros((rows + 1, columns + 1))
    for row in range(rows):
        # Either this row is linked, or what was best without it; then the best up to each column.
        taken = np.maximum(best[row, 1:], best[row, :-1] + table[row])
        best[row + 1, 1:] = np.maximum.accumulate(taken)
    links = np.zeros_like(table)
    row, column = rows, columns
    while row and column:
        if best[row, column] == best[row, column - 1]:
            column -= 1
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            links[row, column] = table[row, column]
    return _filled(links)


def mutual_links(table: np.ndarray) -> np.ndarray:
    """Link the words of two versions of a sentence that are each other's most alike, in any order.

    Args:
        table: (words, words), from `likeness_table`; the nearer of equal words count.
    """
    if not table.size:
        return table
    rows, columns = ((np.arange(size) + 0.5) / size for size in table.shape)
    nearness = 1 - _PULL * np.abs(rows[:, None] - columns)
    return _filled(np.where(argmax_links(table * nearness), table, 0.0))


def _filled(links: np.ndarray) -> np.ndarray:
    """Link what lies between two linked words on either side as a block, with less weight.

    There one version has other words than the other.
    """
    linked = links.argmax(axis=1)
    ends = [(-1, -1), *((row, int(linked[row])) for row in np.flatnonzero(links.any(axis=1))),
            links.shape]
    filled = links.copy()
    for (top, left), (bottom, right) in pairwise(ends):
        if not links[:, left + 1:right].any():
            filled[top + 1:bottom, left + 1:right] = _GAP_WEIGHT
    return filled


def best_match(phrase: str, text: str, expected: float) -> Projection | None:
    """Find the part of a text that is most like a phrase; None where nothing is.

    The score of a part is Dice's coefficient of its letters and the phrase's, of which those of
    words alike are in common, times what its distance from the expected place leaves.

    Args:
        phrase: some words, in the language of the text.
        text: to search.
        expected: relative position of the middle of the place, 0 to 1.
    """
    table, words, places = likeness_table(phrase, text)
    if not table.any():
        return None
    needed = np.array([end - start for start, end in words], float)
    lengths = np.array([end - start for start, end in places], float)
    liked = table.max(axis=0) > 0
    found: list[Projection] = []
    for low in np.flatnonzero(liked).tolist():
        common = needed @ np.maximum.accumulate(table[:, low:], axis=1)
        dice = 2 * common / (needed.sum() + np.cumsum(lengths[low:]))
        middles = np.array([places[low][0] + end for _, end in places[low:]]) / (2 * len(text))
        scores = dice.clip(max=1.0) * liked[low:] * (1 - _PULL * abs(middles - expected))
        at = int(scores.argmax())
        found.append(Projection(places[low][0], places[low + at][1], float(scores[at])))
    return max(found, key=lambda place: place.score)
