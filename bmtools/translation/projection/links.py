"""Links between the words of a sentence and its translation, and the places that they show."""

from __future__ import annotations

import re

import numpy as np

from bmtools.translation.projection.pairs import Projection

Span = tuple[int, int]
# Numbers with their decimals, letters of scripts without spaces, words with an elided vowel as
# Italian and French have them, and signs one by one.
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uf900-"
                   r"\ufaff]|[^\W\u0e00-\u0eff\u3005-\u9fff]+(?:['\u2019](?=[^\W\d_]))?|\S")
_GAP = 0.05
"""Cost of a word without links within a place: what lies ten words off is not bridged."""


def word_spans(text: str) -> list[Span]:
    """Find the words and signs of a text."""
    return [found.span() for found in _WORD.finditer(text)]


def linked_place(links: np.ndarray, source_words: list[Span], target_words: list[Span],
                 span: Span) -> Projection | None:
    """Find the part of the target that belongs to a span of the source; None without links.

    Each target word counts for the place by the share of its links that lead into the span, less
    one half; of all runs of words the one with the greatest sum is taken, so that a stray link far
    off does not stretch it. The score is the share of links of the place that lead into the span,
    times the share of the span's words that are linked to the place.

    Args:
        links: (source words, target words), weights from 0 on.
        source_words: their spans.
        target_words: likewise.
        span: start and end of the annotation in the source.
    """
    inside = np.array([first < span[1] and span[0] < last for first, last in source_words], bool)
    if not links.size or not inside.any():
        return None
    within, total = links[inside].sum(axis=0), links.sum(axis=0)
    shares = np.divide(within, total, out=np.zeros(len(total)), where=total > 0)
    low, high = _best_run(np.where(total > 0, shares - 0.5, -_GAP))
    if low == high:
        return None
    rows = links[inside]
    reached = (rows[:, low:high].sum(axis=1) > 0).mean()
    score = float(reached * within[low:high].sum() / total[low:high].sum())
    return Projection(target_words[low][0], target_words[high - 1][1], score)


def _best_run(values: np.ndarray) -> Span:
    """Find the run with the greatest sum; an empty one where no value is above 0."""
    best, place = 0.0, (0, 0)
    total, start = 0.0, 0
    for at, value in enumerate(values.tolist()):
        if total <= 0:
            total, start = 0.0, at
        total += value
        if total > best:
            best, place = total, (start, at + 1)
    return place
