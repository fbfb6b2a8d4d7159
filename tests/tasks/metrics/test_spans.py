from __future__ import annotations

import random
from typing import Any

import pytest
from simple_task_scores import score_characters

from bmtools.tasks.metrics.spans import (
    Mention,
    find_words,
    score_matches,
    score_spans,
    score_words,
    words_in,
)
from bmtools.tasks.tagging import tags_to_spans

TAGS = ["O", "O", "O", "B-X", "I-X", "B-Y", "I-Y"]


def mentions(sequences: list[list[str]]) -> list[Mention]:
    return [(number, *span) for number,
            tags in enumerate(sequences) for span in tags_to_spans(tags)]


def test_a_mention_counts_once() -> None:
    scores, by_type = score_spans([(0, 0, 4, "X")] * 2, [(0, 0, 4, "X")] * 3)
    assert scores == by_type["X"] == score_matches(1, 1, 1)


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


def test_the_figures_that_multiclinai_publishes() -> None:
    """Those of its example, in four digits; its prediction of a disease ends too early."""
    gold = [(1, 10, 18, "DISEASE"), (2, 5, 13, "DISEASE")]
    found = [(1, 10, 18, "DISEASE"), (2, 5, 12, "DISEASE"), (2, 100, 110, "DISEASE")]
    strict, _ = score_spans(gold, found)
    assert [strict["precision"], strict["recall"], strict["f1"]] == \
        pytest.approx([0.3333, 0.5, 0.4], abs=5e-5)
    assert score_characters(gold, found) == {
        "precision": pytest.approx(0.6444, abs=5e-5), "recall": pytest.approx(0.9667, abs=5e-5),
        "f1": pytest.approx(0.7733, abs=5e-5)}


def test_words_of_entities() -> None:
    text = "due mg di aspirina, 3 volte"
    words = find_words(text)
    assert [text[start:end] for start, end in words] == [
        "due", "mg", "di", "aspirina,", "3", "volte"]
    assert words_in(words, [(10, 18, "I"), (0, 6, "O"), (3, 4, "P"), (5, 11, "P")]) == {
        (3, "I"), (0, "O"), (1, "O"), (1, "P"), (2, "P"), (3, "P")}


def test_word_scores_equal_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = random.Random(3)
    for _ in range(50):
        gold, found = ({(text, word, kind) for text in range(3) for word in range(9)
                        for kind in "PIO" if rng.random() < 0.3} for _ in "ab")
        every = [(text, word) for text in range(3) for word in range(9)]
        table = [[[(*one, kind) in side for kind in "IOP"] for one in every]
                 for side in (gold, found)]
        scores, by_type = score_words(gold, found)
        assert scores["macro_f1"] == pytest.approx(
            metrics.f1_score(*table, average="macro", zero_division=0), abs=1e-6)
        assert scores["f1"] == pytest.approx(
            metrics.f1_score(*table, average="micro", zero_division=0), abs=1e-6)
        assert sorted(by_type) == ["I", "O", "P"]
