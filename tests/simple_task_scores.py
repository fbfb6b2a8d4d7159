"""Scores of mentions, each computed from its definition, for comparison with `task_scores`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from statistics import fmean
from typing import Any

from bmtools.tasks.metrics.spans import Mention


def score_matches(correct: int, predicted: int, support: int) -> dict[str, Any]:
    """Compute precision, recall and F1 to six digits; each is 0 if its denominator is 0."""
    return {"precision": round(correct / (predicted or 1), 6),
            "recall": round(correct / (support or 1), 6),
            "f1": round(2 * correct / (predicted + support or 1), 6),
            "support": support, "predicted": predicted, "correct": correct}


def score_spans(gold: Collection[Mention],
                predicted: Collection[Mention]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Score mentions strictly, in total and by type."""
    expected, found = set(gold), set(predicted)
    correct, predictions, support = (Counter(kind for *_, kind in mentions)
                                     for mentions in (expected & found, found, expected))
    return score_matches(len(expected & found), len(found), len(expected)), {
        kind: score_matches(correct[kind], predictions[kind], support[kind])
        for kind in sorted(support | predictions)}


def score_characters(gold: Collection[Mention], predicted: Collection[Mention],
                     relaxed: bool = False) -> dict[str, float]:
    """Score mentions by the characters that they share with their best counterpart.

    Recall is the mean over gold mentions, and precision is the mean over predictions. With
    `relaxed`, one shared character counts like all: the lenient measure of n2c2 2018.
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
