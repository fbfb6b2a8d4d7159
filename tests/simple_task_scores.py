"""Scores of mentions, each by its definition, to hold `task_scores` against."""

from __future__ import annotations

from collections.abc import Collection
from statistics import fmean

from bmtools.tasks.metrics.spans import Mention


def score_characters(gold: Collection[Mention], predicted: Collection[Mention],
                     relaxed: bool = False) -> dict[str, float]:
    """Score mentions by the characters that they share with their best counterpart.

    Recall is the mean over gold mentions, precision that over predictions. With `relaxed`, one
    shared character is as good as all: the lenient measure of n2c2 2018.
    """
    def f1(one: Mention, other: Mention) -> float:
        if (one[0], one[3]) != (other[0], other[3]):
            return 0.0
        shared = len({*range(*one[1:3])} & {*range(*other[1:3])})
        return float(shared > 0) if relaxed else 2 * shared / (
            one[2] - one[1] + other[2] - other[1])

    recall, precision = (
        fmean([max((f1(one, other) for other in others), default=0) for one in {*side}] or [0])
        for side, others in ((gold, predicted), (predicted, gold)))
    return {"precision": precision, "recall": recall,
            "f1": 2 * precision * recall / (precision + recall or 1)}
