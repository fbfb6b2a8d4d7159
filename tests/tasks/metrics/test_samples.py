from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.metrics.spans import score_matches


def score_labels(gold: list[str], found: list[str], negative: str | None = None) -> Any:
    return measure("classification", *([{"label": one} for one in side] for side in (gold, found)),
                   negative)


def score_label_sets(gold: Any, found: Any) -> Any:
    return measure("multilabel", *([{"labels": [*one]} for one in side] for side in (gold, found)))


def test_scores_equal_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for size in (1, 5, 40, 400):
        gold = rng.choice(["a", "b", "c", "new"], size).tolist()
        found = rng.choice(["a", "b", "c"], size).tolist()
        ours, by_label = score_labels(gold, found)
        assert ours["accuracy"] == pytest.approx(metrics.accuracy_score(gold, found), abs=1e-6)
        for average in ("macro", "weighted"):
            theirs = metrics.f1_score(gold, found, average=average, zero_division=0)
            assert ours[f"{average}_f1"] == pytest.approx(theirs, abs=1e-6)
        report = metrics.classification_report(gold, found, output_dict=True, zero_division=0)
        assert set(by_label) == set(gold) | set(found)
        for label, scores in by_label.items():
            assert [scores[name] for name in ("precision", "recall", "f1", "support")] == \
                pytest.approx([report[label][name] for name in (
                    "precision", "recall", "f1-score", "support")], abs=1e-6)


def test_f1_over_positive_classes_equals_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    for size in (3, 30, 300):
        gold, found = (rng.choice(["false", "a", "b"], size, p=[0.6, 0.3, 0.1]).tolist()
                       for _ in "ab")
        ours, by_label = score_labels(gold, found, negative="false")
        positive = sorted({*gold, *found} - {"false"})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs: Any = metrics.precision_recall_fscore_support(
                gold, found, labels=positive, average="micro", zero_division=0)
            macro = metrics.f1_score(gold, found, labels=positive, average="macro",
                                     zero_division=0)
        assert [ours[name] for name in ("precision", "recall", "micro_f1")] == \
            pytest.approx(theirs[:3], abs=1e-6)
        assert ours["macro_f1"] == pytest.approx(macro, abs=1e-6)
        assert sorted(by_label) == positive
        assert ours["accuracy"] == pytest.approx(metrics.accuracy_score(gold, found), abs=1e-6)


def test_label_sets_equal_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    names = [f"hallmark {number}" for number in range(4)]
    for size in (1, 7, 60):
        tables = rng.random((2, size, 4)) < 0.4
        tables[0, :, 0] |= ~tables[0].any(axis=1)  # BLUE's set has no example without labels
        gold, found = ([[name for name, has in zip(names, row, strict=True) if has]
                        for row in table] for table in tables)
        ours, by_label = score_label_sets(gold, found)
        assert ours["micro_f1"] == pytest.approx(
            metrics.f1_score(*tables, average="micro", zero_division=0), abs=1e-6)
        precision, recall, _, _ = metrics.precision_recall_fscore_support(
            *tables, average="samples", zero_division=0)
        assert ours["example_f1"] == pytest.approx(
            2 * precision * recall / (precision + recall) if precision else 0.0, abs=1e-6)
        assert ours["accuracy"] == pytest.approx(metrics.accuracy_score(*tables), abs=1e-6)
        for name, theirs in zip(names, metrics.f1_score(*tables, average=None, zero_division=0),
                                strict=True):
            assert by_label.get(name, {"f1": 0})["f1"] == pytest.approx(theirs, abs=1e-6)
        assert ours["macro_f1"] == pytest.approx(
            np.mean([one["f1"] for one in by_label.values()]), abs=1e-6)


def test_precision_and_recall_are_not_exchanged() -> None:
    scores, by_label = score_label_sets([["a", "b"]], [["a"]])
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)
    assert by_label == {"a": score_matches(1, 1, 1), "b": score_matches(0, 0, 1)}
