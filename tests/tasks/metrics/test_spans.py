from __future__ import annotations

import random
from typing import Any

import pytest

from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.metrics.spans import Typed, find_words, words_in
from bmtools.tasks.tagging import tags_to_spans

TAGS = ["O", "O", "O", "B-X", "I-X", "B-Y", "I-Y"]
Sides = tuple[list[list[Typed]], list[list[Typed]]]


def measured(task: str, sides: Sides, text: str = "x" * 200) -> tuple[Any, Any]:
    """Score the mentions of several texts."""
    gold, found = ([{"text": text, "entities": [
        {"start": start, "end": end, "type": kind} for start, end, kind in spans]}
        for spans in side] for side in sides)
    return measure(task, gold, found)


def test_duplicate_mentions_count_once() -> None:
    scores, by_type = measured("ner", ([[(0, 4, "X")] * 2], [[(0, 4, "X")] * 3]))
    assert scores == by_type["X"] and set(scores.values()) == {1}


def test_scores_equal_seqeval_on_random_tags() -> None:
    metrics = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(0)
    for _ in range(60):
        gold = [rng.choices(TAGS, k=rng.randint(1, 15)) for _ in range(8)]
        found = [[rng.choice(TAGS) if rng.random() < 0.3 else tag for tag in tags]
                 for tags in gold]
        ours, by_type = measured("ner", ([tags_to_spans(tags) for tags in gold],
                                         [tags_to_spans(tags) for tags in found]))
        theirs = metrics.classification_report(gold, found, output_dict=True, zero_division=0)
        assert set(by_type) == {kind for kind in theirs if not kind.endswith("avg")}
        for kind, scores in {**by_type, "micro avg": ours}.items():
            assert [scores[name] for name in ("precision", "recall", "f1", "support")] == \
                pytest.approx([theirs[kind][name] for name in (
                    "precision", "recall", "f1-score", "support")], abs=1e-6)


def test_scores_equal_multiclinais_published_example() -> None:
    """The published scores have four digits; one predicted disease ends too early."""
    scores, _ = measured("ner", ([[(10, 18, "DISEASE")], [(5, 13, "DISEASE")]], [
        [(10, 18, "DISEASE")], [(5, 12, "DISEASE"), (100, 110, "DISEASE")]]))
    for prefix, expected in (("", (0.3333, 0.5, 0.4)), ("character_", (0.6444, 0.9667, 0.7733))):
        assert [scores[prefix + name] for name in ("precision", "recall", "f1")] == \
            pytest.approx(expected, abs=5e-5)


def test_words_of_entities_are_found() -> None:
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
        sides = [[[(2 * word, 2 * word + 1, kind) for word in range(9) for kind in "IOP"
                   if rng.random() < 0.3] for _ in range(3)] for _ in "ab"]
        table = [[[(2 * word, 2 * word + 1, kind) in spans for kind in "IOP"]
                  for spans in side for word in range(9)] for side in sides]
        scores, by_type = measured("pico", (sides[0], sides[1]), "a " * 9)
        for average in ("macro", "micro"):
            assert scores["f1" if average == "micro" else "macro_f1"] == pytest.approx(
                metrics.f1_score(*table, average=average, zero_division=0), abs=1e-6)
        assert sorted(by_type) == ["I", "O", "P"]
