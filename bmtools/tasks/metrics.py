"""Precision, recall and F1 of entities and of labels, and the mean loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from bmtools.masking.corruption import IGNORED

Mention = tuple[int, int, int, str]
Scores = dict[str, Any]
_DIGITS = 6


def score_matches(correct: int, predicted: int, support: int) -> Scores:
    """Compute precision, recall and F1, rounded; each is 0 where it would divide by 0.

    Args:
        correct: predictions that equal a gold annotation.
        predicted: all predictions.
        support: all gold annotations.
    """
    total = predicted + support
    return {"precision": round(correct / predicted, _DIGITS) if predicted else 0.0,
            "recall": round(correct / support, _DIGITS) if support else 0.0,
            "f1": round(2 * correct / total, _DIGITS) if total else 0.0,
            "support": support, "predicted": predicted, "correct": correct}


def score_spans(gold: Iterable[Mention],
                predicted: Iterable[Mention]) -> tuple[Scores, dict[str, Scores]]:
    """Score mentions, which are correct if record, start, end and type are; duplicates count once.

    Returns:
        scores of all mentions, and of each type in alphabetical order.
    """
    expected, found = set(gold), set(predicted)
    correct, predictions, support = (Counter(kind for *_, kind in mentions)
                                     for mentions in (expected & found, found, expected))
    by_type = {kind: score_matches(correct[kind], predictions[kind], support[kind])
               for kind in sorted(support | predictions)}
    return score_matches(len(expected & found), len(found), len(expected)), by_type


def score_labels(gold: Sequence[str],
                 predicted: Sequence[str]) -> tuple[Scores, dict[str, Scores]]:
    """Score one label a record by the labels that occur among gold or predictions.

    Returns:
        accuracy, the mean F1 of labels (macro) and the F1 of all counts (micro), which equals
        accuracy with one label a record; and scores of each label in alphabetical order.
    """
    correct = Counter(label for label, found in zip(gold, predicted, strict=True)
                      if label == found)
    found, support = Counter(predicted), Counter(gold)
    labels = sorted(support | found)
    total = score_matches(correct.total(), len(predicted), len(gold))
    f1 = [2 * correct[label] / (found[label] + support[label]) for label in labels]
    scores = {"accuracy": total["recall"], "macro_f1": round(fmean(f1), _DIGITS) if f1 else 0.0,
              "micro_f1": total["f1"], "support": total["support"], "correct": total["correct"]}
    return scores, {label: score_matches(correct[label], found[label], support[label])
                    for label in labels}


def mean_loss(log_probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """Average the cross-entropy over labels, in nats; infinite where there is none.

    Args:
        log_probabilities: (items, labels).
        label_ids: (items,), IGNORED where there is no label.
    """
    [known] = np.nonzero(label_ids != IGNORED)
    losses = -log_probabilities[known, label_ids[known]]
    return float(losses.mean(dtype=np.float64)) if len(known) else math.inf
