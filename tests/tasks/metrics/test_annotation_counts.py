"""Counts and label bias of annotated sets, computed by hand and compared with real files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.tasks.metrics.annotation_counts import AnnotationCounts


def count(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Count two parts of the records and merge the counts."""
    first, second = AnnotationCounts(), AnnotationCounts()
    first.add(records[:1])
    second.add(records[1:])
    first.merge(second)
    return first.line()


def test_every_kind_of_annotation_is_counted() -> None:
    mentions = [{"id": "a", "start": 0, "end": 10, "type": "DIS"},
                {"id": "b", "start": 5, "end": 10, "type": "SIGN"}]
    records: list[dict[str, Any]] = [
        {"id": "1", "text": "Asma grave oggi , poi nulla .", "entities": mentions, "label": "yes",
         "relations": [{"head": "a", "tail": "b", "type": "has"}], "labels": ["x", "y"],
         "meta": {"document": "d"}},
        {"id": "2", "text": "Febbre .", "entities": [], "relations": [], "label": "yes",
         "labels": ["x"], "meta": {"document": "d"}},
        {"id": "3", "text": "Tosse .", "label": "no"}]
    # Two of nine words are in mentions; one of them is in two mentions.
    assert count(records) == {
        "entities": {"DIS": 1, "SIGN": 1}, "token_labels": {"O": 7, "B-DIS": 1, "I-DIS": 1},
        "relations": {"has": 1},
        "label": {"yes": 2, "no": 1}, "labels": {"x": 2, "y": 1},
        "label_bias": {"relations": 0.0, "label": 0.5, "labels": 0.5, "entities": 0.285714}}


@pytest.mark.data
def test_word_labels_equal_the_tags_in_the_file(data: Path) -> None:
    """BIOptimus, figure 6, on BC5CDR, whose file contains tags."""
    path = data / "en/ner/BC5CDR/test.tsv"
    counts = AnnotationCounts()
    counts.add(conll_records([str(path)]))
    assert counts.line()["token_labels"] == Counter(
        line.split("\t")[1] for line in path.read_text().splitlines() if line)


def test_repeated_answers_are_counted() -> None:
    records = [{"id": str(number), "text": "Asma.", "question": question,
                "answers": [{"text": answer}] * bool(answer)} for number, (question, answer) in
               enumerate([("q", "a"), ("q", "a"), ("q", "b"), ("r", "a"), ("r", "")])]
    assert count(records) == {
        "answers": {"answered": 4, "none": 1}, "repeats": [1, 2],
        "label_bias": {"answers": 0.5}}
