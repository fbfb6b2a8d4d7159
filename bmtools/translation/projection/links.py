"""Links between the words of a sentence and its translation: rules for them, places by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bmtools.translation.projection.pairs import Projection

Span = tuple[int, int]
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Turns the states of two sentences, (tokens, width) each, into the weights of their links."""
_ITERMAX_DISCOUNT = 0.9
_GAP = 0.05
"""Cost of a word without links within a place: what lies ten words off is not bridged."""


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
    inside = words_within(source_words, span)
    if not links.size or not inside.any():
        return None
    within, total = links[inside].sum(axis=0), links.sum(axis=0)
    shares = np.divide(within, total, out=np.zeros(len(total)), where=total > 0)
    low, high = best_run(np.where(total > 0, shares - 0.5, -_GAP))
    if low == high:
        return None
    rows = links[inside]
    reached = (rows[:, low:high].sum(axis=1) > 0).mean()
    score = float(reached * within[low:high].sum() / total[low:high].sum())
    return Projection(target_words[low][0], target_words[high - 1][1], score)


def words_within(words: Sequence[Span], span: Span) -> np.ndarray:
    """Mark the words that a span touches, (words,) bool."""
    return np.array([first < span[1] and span[0] < last for first, last in words], bool)


def best_run(values: np.ndarray, least: float = 0.0) -> Span:
    """Find the run with the greatest sum; an empty one where none is above the least."""
    best, place = least, (0, 0)
    total, start = 0.0, 0
    for at, value in enumerate(values.tolist()):
        if total <= 0:
            total, start = 0.0, at
        total += value
        if total > best:
            best, place = total, (start, at + 1)
    return place


def softmax_links(left: np.ndarray, right: np.ndarray, threshold: float = 0.001) -> np.ndarray:
    """Link tokens whose similarity stands out in both directions.

    Source: Dou and Neubig 2021 (awesome-align), section 2.1; products of states, as there and in
    TransAlign (Ebing and Glavaš 2025).

    Args:
        left: (tokens, width).
        right: (tokens, width).
        threshold: least probability in either direction.

    Returns:
        (left tokens, right tokens), the geometric mean of both probabilities; 0 without a link.
    """
    from scipy.special import softmax

    products = left.astype(np.float64) @ right.astype(np.float64).T
    forward, backward = softmax(products, axis=1), softmax(products, axis=0)
    linked = (forward > threshold) & (backward > threshold)
    return np.where(linked, np.sqrt(forward * backward), 0.0)


def similarities(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compare the states of two sentences by their cosine, scaled to 0 to 1."""
    from sklearn.metrics.pairwise import cosine_similarity

    return (cosine_similarity(left, right) + 1.0) / 2.0


def argmax_links(similarity: np.ndarray) -> np.ndarray:
    """Link tokens that are each other's most similar one.

    Source: Jalili Sabet et al. 2020 (SimAlign), section 3.2.
    """
    rows, columns = similarity.shape
    links = np.zeros((rows, columns), bool)
    links[np.arange(rows), similarity.argmax(axis=1)] = True
    mutual = np.zeros_like(links)
    mutual[similarity.argmax(axis=0), np.arange(columns)] = True
    return links & mutual


def itermax_links(similarity: np.ndarray) -> np.ndarray:
    """Link as `argmax_links`, and once more what has no link yet, at a discount.

    Source: Jalili Sabet et al. 2020 (SimAlign), section 3.2 and algorithm 1, two iterations as in
    the authors' program, which keeps sentences of two tokens as they are.
    """
    links = argmax_links(similarity)
    free_rows = ~links.any(axis=1, keepdims=True)
    free_columns = ~links.any(axis=0, keepdims=True)
    if min(similarity.shape) <= 2 or not free_rows.any() or not free_columns.any():
        return links
    free = free_rows | free_columns
    discount = np.where(free_rows & free_columns, 1.0, _ITERMAX_DISCOUNT)
    return links | (argmax_links(similarity * discount * free) & free)


def match_links(similarity: np.ndarray) -> np.ndarray:
    """Link tokens one to one, with the greatest sum of similarities.

    Source: Jalili Sabet et al. 2020 (SimAlign), section 3.2.
    """
    from scipy.optimize import linear_sum_assignment

    links = np.zeros(similarity.shape, bool)
    links[linear_sum_assignment(similarity, maximize=True)] = True
    return links


_BY_SIMILARITY = {"argmax": argmax_links, "itermax": itermax_links, "match": match_links}


def link_rule(name: str, threshold: float = 0.001) -> Rule:
    """Return the rule of a name: softmax, argmax, itermax or match."""
    if name == "softmax":
        return partial(softmax_links, threshold=threshold)
    links = _BY_SIMILARITY[name]
    return lambda left, right: links(similarities(left, right)).astype(np.float64)
