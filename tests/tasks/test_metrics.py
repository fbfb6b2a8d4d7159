from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from bmtools.tasks.metrics import Mention, score_labels, score_matches, score_spans
from bmtools.tasks.ner import tags_to_spans

TAGS = ["O", "O", "O", "B-X", "I-X", "B-Y", "I-Y"]


def mentions(sequences: list[list[str]]) -> list[Mention]:
    return [(number, *span) for number,
            tags in enumerate(sequences) for span in tags_to_spans(tags)]


@pytest.mark.parametrize(("counts", "precision", "recall", "f1"), [
    ((1, 2, 4), 0.5, 0.25, 0.333333),
    ((0, 0, 4), 0.0, 0.0, 0.0),
    ((0, 3, 0), 0.0, 0.0, 0.0),
    ((0, 0, 0), 0.0, 0.0, 0.0),
    ((3, 3, 3), 1.0, 1.0, 1.0),
])
def test_scores_by_hand(counts: tuple[int, int, int], precision: float, recall: float,
                        f1: float) -> None:
    correct, predicted, support = counts
    assert score_matches(*counts) == {
        "precision": precision, "recall": recall, "f1": f1, "support": support,
        "predicted": predicted, "correct": correct}


def test_borders_type_and_record_must_all_be_right() -> None:
    gold = [(0, 3, 8, "X"), (1, 0, 4, "X")]
    assert score_spans(gold, gold)[0]["f1"] == 1
    for wrong in ((0, 3, 9, "X"), (0, 2, 8, "X"), (0, 3, 8, "Y"), (2, 3, 8, "X")):
        assert score_spans(gold, [wrong])[0]["correct"] == 0


def test_a_mention_counts_once() -> None:
    scores, by_type = score_spans([(0, 0, 4, "X")] * 2, [(0, 0, 4, "X")] * 3)
    assert scores == by_type["X"] == score_matches(1, 1, 1)


def test_nothing_scores_nothing() -> None:
    assert score_spans([], []) == (score_matches(0, 0, 0), {})
    scores, by_label = score_labels([], [])
    assert (scores["accuracy"], scores["macro_f1"], by_label) == (0.0, 0.0, {})


def assert_equals_seqeval(gold: list[list[str]], found: list[list[str]]) -> None:
    metrics = pytest.importorskip("seqeval.metrics.sequence_labeling")
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        gold, found, average="micro", zero_division=0)
    ours, by_type = score_spans(mentions(gold), mentions(found))
    assert [ours[name] for name in ("precision", "recall", "f1", "support")] == \
        pytest.approx([precision, recall, f1, support], abs=1e-6)
    theirs: dict[str, Any] = metrics.classification_report(
        gold, found, output_dict=True, zero_division=0)
    assert set(by_type) == {kind for kind in theirs if not kind.endswith("avg")}
    for kind, scores in by_type.items():
        assert [scores[name] for name in ("precision", "recall", "f1", "support")] == pytest.approx(
            [theirs[kind][name] for name in ("precision", "recall", "f1-score", "support")],
            abs=1e-6)


def test_scores_equal_seqeval_on_random_tags() -> None:
    rng = random.Random(0)
    for _ in range(60):
        gold = [rng.choices(TAGS, k=rng.randint(1, 15)) for _ in range(8)]
        found = [[rng.choice(TAGS) if rng.random() < 0.3 else tag for tag in tags]
                 for tags in gold]
        assert_equals_seqeval(gold, found)


@pytest.mark.data
def test_scores_equal_seqeval_on_real_tags(data: Path) -> None:
    gold: list[list[str]] = [[]]
    for line in (data / "it/ner/E3C/test.txt").read_text(encoding="utf-8").splitlines():
        if line.strip():
            gold[-1].append(line.split()[-1])
        elif gold[-1]:
            gold.append([])
    gold = [tags for tags in gold if tags]
    assert sum(tag.startswith("B") for tags in gold for tag in tags) == 460
    rng = random.Random(0)
    kinds = sorted({tag for tags in gold for tag in tags})
    found = [[rng.choice(kinds) if rng.random() < 0.05 else tag for tag in tags] for tags in gold]
    assert_equals_seqeval(gold, found)
