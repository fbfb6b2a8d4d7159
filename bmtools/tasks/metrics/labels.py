"""Scores of labels: one of several classes, or any number of labels, a record or a document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from statistics import fmean
from typing import TypeVar

import numpy as np

from bmtools.tasks.metrics.counts import Scores, divide, rounded, score_matches

DocumentT = TypeVar("DocumentT", bound=Hashable)


def score_labels(gold: Sequence[str], predicted: Sequence[str],
                 negative: str | None = None) -> tuple[Scores, dict[str, Scores]]:
    """Score one label a record by the labels that occur among gold or predictions.

    Args:
        gold: labels.
        predicted: as many.
        negative: class that is no finding, such as a pair without a relation. It counts for
            accuracy alone: F1 is over the others, and `positive` has their precision and recall.

    Returns:
        accuracy, the mean F1 of labels (macro), the mean weighted by gold labels, and the F1 of
        all counts (micro), which equals accuracy with one label a record and no negative class;
        and scores of each label in alphabetical order.
    """
    correct = Counter(label for label, found in zip(gold, predicted, strict=True)
                      if label == found)
    found, support = Counter(predicted), Counter(gold)
    labels = sorted((support | found).keys() - {negative})
    by_label = {label: score_matches(correct[label], found[label], support[label])
                for label in labels}
    micro = score_matches(*(sum(counts[label] for label in labels)
                            for counts in (correct, found, support)))
    f1 = [divide(2 * correct[label], found[label] + support[label]) for label in labels]
    weights = [support[label] for label in labels]
    scores = {"accuracy": rounded(divide(correct.total(), len(gold))),
              "macro_f1": rounded(fmean(f1)) if f1 else 0.0, "micro_f1": micro["f1"],
              "weighted_f1": rounded(np.average(f1, weights=weights)) if any(weights) else 0.0,
              "support": len(gold), "correct": correct.total()}
    if negative is not None:
        scores["positive"] = micro
    return scores, by_label


def score_label_sets(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]],
                     labels: Iterable[str] = ()) -> tuple[Scores, dict[str, Scores]]:
    """Score any number of labels a record, or a document if they were joined before.

    `micro_f1` of documents is BLURB's measure of HoC; `example_f1` is BLUE's, the F1 of the mean
    precision and the mean recall of examples. Examples without gold labels do not count for it,
    as BLUE's set has none.

    Source: Gu et al. 2021, table 3, and Yasunaga et al. 2022, whose code computes it; Peng et al.
    2019 (BLUE); Zhang and Zhou 2014, section 2.2.

    Args:
        gold: sets of labels.
        predicted: as many.
        labels: that may occur; those that do in any case.

    Returns:
        `micro_f1` with its precision and recall, `macro_f1` (mean over labels), `example_f1`,
        `accuracy` (share of examples whose labels are all right), counts of labels; and scores of
        each label in alphabetical order.
    """
    pairs = [(set(one), set(other)) for one, other in zip(gold, predicted, strict=True)]
    support, found, correct = (Counter(label for labels in sets for label in labels) for sets in (
        [one for one, _ in pairs], [other for _, other in pairs],
        [one & other for one, other in pairs]))
    known = sorted({*labels, *support, *found})
    by_label = {label: score_matches(correct[label], found[label], support[label])
                for label in known}
    micro = score_matches(correct.total(), found.total(), support.total())
    shares = [(float(divide(len(one & other), len(other))), len(one & other) / len(one))
              for one, other in pairs if one]
    precision, recall = np.mean(shares, axis=0) if shares else (0.0, 0.0)
    scores = {
        "micro_f1": micro.pop("f1"), "precision": micro.pop("precision"),
        "recall": micro.pop("recall"),
        "macro_f1": rounded(fmean(one["f1"] for one in by_label.values())) if by_label else 0.0,
        "example_f1": rounded(divide(2 * precision * recall, precision + recall)),
        "accuracy": rounded(divide(sum(one == other for one, other in pairs), len(pairs))),
        "examples": len(pairs), **micro}
    return scores, by_label


def join_by_document(documents: Iterable[DocumentT],
                     labels: Iterable[Iterable[str]]) -> dict[DocumentT, set[str]]:
    """Join the labels of each document's sentences; documents in order of appearance.

    Args:
        documents: the document of each sentence.
        labels: of each sentence.
    """
    joined: dict[DocumentT, set[str]] = defaultdict(set)
    for document, own in zip(documents, labels, strict=True):
        joined[document].update(own)
    return joined
