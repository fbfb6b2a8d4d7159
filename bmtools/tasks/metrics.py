"""Precision, recall and F1 of entities and of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

Mention = tuple[int, int, int, str]
_DIGITS = 6


@dataclass(frozen=True)
class MatchCounts:
    """Numbers of correct predictions, of predictions and of gold annotations (support)."""

    correct: int
    predicted: int
    support: int

    @property
    def precision(self) -> float:
        """Share of the predictions that are correct; 0 where there are none."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold annotations that were predicted; 0 where there are none."""
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.predicted + self.support
        return 2 * self.correct / total if total else 0.0

    def report(self) -> dict[str, Any]:
        """Scores, rounded, and counts."""
        return {"precision": round(self.precision, _DIGITS), "recall": round(self.recall, _DIGITS),
                "f1": round(self.f1, _DIGITS), "support": self.support,
                "predicted": self.predicted, "correct": self.correct}


def score_spans(gold: Iterable[Mention], predicted: Iterable[Mention]) -> MatchCounts:
    """Count mentions whose record, start, end and type are all right; each distinct one once."""
    expected, found = set(gold), set(predicted)
    return MatchCounts(len(expected & found), len(found), len(expected))


def score_spans_by_type(gold: Iterable[Mention],
                        predicted: Iterable[Mention]) -> dict[str, MatchCounts]:
    """Compare the mentions of each type, types in alphabetical order."""
    expected, found = set(gold), set(predicted)
    return {kind: score_spans((m for m in expected if m[3] == kind),
                              (m for m in found if m[3] == kind))
            for kind in sorted({mention[3] for mention in expected | found})}


@dataclass(frozen=True)
class LabelScores:
    """Scores of single labels, each by the labels that occur among gold or predictions.

    Args:
        by_label: counts of each label, labels in alphabetical order.
    """

    by_label: dict[str, MatchCounts]

    @property
    def total(self) -> MatchCounts:
        """Counts over all labels."""
        counts = self.by_label.values()
        return MatchCounts(sum(c.correct for c in counts), sum(c.predicted for c in counts),
                           sum(c.support for c in counts))

    def report(self) -> dict[str, Any]:
        """Accuracy, the mean F1 of labels (macro) and the F1 of all counts (micro), rounded.

        With one label a record, micro F1 equals accuracy.
        """
        total = self.total
        macro_f1 = fmean(counts.f1 for counts in self.by_label.values()) if self.by_label else 0.0
        return {"accuracy": round(total.recall, _DIGITS), "macro_f1": round(macro_f1, _DIGITS),
                "micro_f1": round(total.f1, _DIGITS), "support": total.support,
                "correct": total.correct}


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Compare one gold and one predicted label a record."""
    correct = Counter(label for label, found in zip(gold, predicted, strict=True)
                      if label == found)
    support, found = Counter(gold), Counter(predicted)
    return LabelScores({label: MatchCounts(correct[label], found[label], support[label])
                        for label in sorted(support | found)})
