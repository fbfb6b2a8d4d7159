"""Scores of mentions, each by its definition, to hold `task_scores` against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from statistics import fmean

from bmtools.tasks.metrics.spans import Mention, Overlaps, Scores, divide, find_overlaps, rounded


def score_relaxed(gold: Iterable[Mention], predicted: Iterable[Mention]) -> Scores:
    """Score mentions whatever their borders: text, type and at least one character must agree.

    Precision is the share of predictions that overlap a gold mention, recall the share of gold
    mentions that a prediction overlaps: the lenient measure of n2c2 2018.
    """
    return _of_shares(find_overlaps(gold, predicted).values(), lambda score: score > 0)


def score_characters(gold: Iterable[Mention], predicted: Iterable[Mention]) -> Scores:
    """Score mentions by the characters that they share with their best counterpart.

    Recall is the mean over gold mentions, precision that over predictions; see `find_overlaps`.
    """
    return _of_shares(find_overlaps(gold, predicted).values(), float)


def _of_shares(overlaps: Collection[Overlaps], value: Callable[[float], float]) -> Scores:
    gold = [value(score) for own in overlaps for score in own.gold]
    predicted = [value(score) for own in overlaps for score in own.predicted]
    precision, recall = fmean(predicted or [0]), fmean(gold or [0])
    return {"precision": rounded(precision), "recall": rounded(recall),
            "f1": rounded(divide(2 * precision * recall, precision + recall))}
