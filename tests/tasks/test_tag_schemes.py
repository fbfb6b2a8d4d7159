from __future__ import annotations

import random

import pytest

from bmtools.tasks.tag_schemes import is_bio, label_names, spans_to_tags, tags_to_spans


@pytest.mark.parametrize(("tags", "spans"), [
    ("", []),
    ("O O", []),
    ("B-X", [(0, 1, "X")]),
    ("B-X I-X O", [(0, 2, "X")]),
    ("B-X B-X", [(0, 1, "X"), (1, 2, "X")]),
    ("O I-X I-X", [(1, 3, "X")]),
    ("B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
    ("B-X O I-X", [(0, 1, "X"), (2, 3, "X")]),
    ("I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
    ("B-a-b I-a-b I-a", [(0, 2, "a-b"), (2, 3, "a")]),
])
def test_tags_are_read_tolerantly(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert tags_to_spans(tags.split()) == spans


def test_spans_come_back_from_their_tags() -> None:
    rng = random.Random(0)
    for _ in range(200):
        borders = sorted(rng.sample(range(30), 8))
        spans = [(start, end, rng.choice("XY"))
                 for start, end in zip(borders[::2], borders[1::2], strict=True)]
        assert tags_to_spans(spans_to_tags(30, spans)) == spans


def test_spans_agree_with_seqeval() -> None:
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(1)
    for _ in range(500):
        tags = rng.choices(["O", "B-X", "I-X", "B-Y", "I-Y", "B-a-b", "I-a-b"], k=12)
        theirs = [(start, end + 1, kind) for kind, start, end in
                  sequence_labeling.get_entities(tags)]
        assert tags_to_spans(tags) == theirs


def test_label_names_do_not_depend_on_order() -> None:
    assert label_names(["b", "a", "b"]) == ["O", "B-a", "I-a", "B-b", "I-b"]


@pytest.mark.parametrize(("labels", "expected"), [
    (["O", "B-X", "I-X"], True), (["LABEL_0"], False), (["O", "X"], False), (["B-"], False),
    (["S-X"], False),
])
def test_other_schemes_are_told_apart(labels: list[str], expected: bool) -> None:
    assert is_bio(labels) is expected
