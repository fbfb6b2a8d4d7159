from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from bmtools.tasks.metrics import MatchCounts, Mention, score_spans, score_spans_by_type
from bmtools.tasks.tag_schemes import tags_to_spans

TAGS = ["O", "O", "O", "B-X", "I-X", "B-Y", "I-Y"]


def mentions(sequences: list[list[str]]) -> list[Mention]:
    return [(number, *span) for number,
            tags in enumerate(sequences) for span in tags_to_spans(tags)]


@pytest.mark.parametrize(("score", "precision", "recall", "f1"), [
    (MatchCounts(1, 2, 4), 0.5, 0.25, 1 / 3),
    (MatchCounts(0, 0, 4), 0.0, 0.0, 0.0),
    (MatchCounts(0, 3, 0), 0.0, 0.0, 0.0),
    (MatchCounts(0, 0, 0), 0.0, 0.0, 0.0),
    (MatchCounts(3, 3, 3), 1.0, 1.0, 1.0),
])
def test_scores_by_hand(score: MatchCounts, precision: float, recall: float, f1: float) -> None:
    assert (score.precision, score.recall) == (precision, recall)
    assert score.f1 == pytest.approx(f1)


def test_borders_type_and_record_must_all_be_right() -> None:
    gold = [(0, 3, 8, "X"), (1, 0, 4, "X")]
    assert score_spans(gold, gold).f1 == 1
    for wrong in ((0, 3, 9, "X"), (0, 2, 8, "X"), (0, 3, 8, "Y"), (2, 3, 8, "X")):
        assert score_spans(gold, [wrong]).correct == 0


def test_a_mention_counts_once() -> None:
    assert score_spans([(0, 0, 4, "X")] * 2, [(0, 0, 4, "X")] * 3) == MatchCounts(1, 1, 1)


def assert_equals_seqeval(gold: list[list[str]], found: list[list[str]]) -> None:
    metrics = pytest.importorskip("seqeval.metrics.sequence_labeling")
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        gold, found, average="micro", zero_division=0)
    ours = score_spans(mentions(gold), mentions(found))
    assert (ours.precision, ours.recall, ours.f1, ours.support) == \
        pytest.approx((precision, recall, f1, support))
    theirs: dict[str, Any] = metrics.classification_report(
        gold, found, output_dict=True, zero_division=0)
    by_type = score_spans_by_type(mentions(gold), mentions(found))
    assert set(by_type) == {kind for kind in theirs if not kind.endswith("avg")}
    for kind, score in by_type.items():
        assert (score.precision, score.recall, score.f1, score.support) == pytest.approx(
            [theirs[kind][name] for name in ("precision", "recall", "f1-score", "support")])


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
