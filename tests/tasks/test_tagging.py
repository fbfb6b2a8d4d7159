from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from bmtools.tasks.tagging import (
    SCHEMES,
    can_follow,
    group_labels,
    iob2_spans,
    tag_words,
    tags_to_spans,
)

WORDS = np.stack([np.arange(30), np.arange(30) + 1], axis=1)
SEQEVAL = str.maketrans("LU", "ES")


@pytest.mark.parametrize(("scheme", "tags"), [
    ("bio", "O B-X I-X I-X B-X O B-Y"), ("io", "O I-X I-X I-X I-X O I-Y"),
    *((name, "O B-X I-X L-X U-X O U-Y") for name in ("bioul", "bilou", "iobes"))])
def test_words_are_tagged_in_each_scheme(scheme: str, tags: str) -> None:
    found, faults = tag_words(WORDS[:7], [(1, 4, "X"), (4, 5, "X"), (6, 7, "Y")], scheme)
    assert found == tags.split() and not faults


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_come_back_from_every_scheme(scheme: str) -> None:
    rng = random.Random(0)
    for _ in range(200):
        borders = sorted(rng.sample(range(30), 8))
        given = [(start, end, rng.choice("XY"))
                 for start, end in zip(borders[::2], borders[1::2], strict=True)]
        tags, _ = tag_words(WORDS, given, scheme)
        assert tags_to_spans(tags) == given
        assert set(tags) <= set(group_labels(scheme, "XY", False)[0])
        assert all(map(can_follow, [scheme] * 29, tags, tags[1:]))


@pytest.mark.parametrize("scheme", ["bio", "bioul"])
def test_what_a_scheme_forbids_comes_from_no_entities(scheme: str) -> None:
    """Pairs of tags that entities of three words can make are those that are allowed."""
    labels = group_labels(scheme, "XY", False)[0]
    made = set()
    spans = [(start, end) for start in range(4) for end in range(start + 1, 5)]
    for first in spans:
        for second in [*spans, (9, 9)]:
            if second[0] >= first[1]:
                for kinds in ("XX", "XY", "YX", "YY"):
                    tags, _ = tag_words(WORDS[:5], [(*first, kinds[0]), (*second, kinds[1])][
                        :1 + (second[0] < 9)], scheme)
                    made |= set(pairwise(tags))
    made.add(("O", "O"))
    assert made == {(one, other) for one in labels for other in labels
                    if can_follow(scheme, one, other)}


@pytest.mark.parametrize("letters", ["BIO", "BILUO", "IO"])
def test_tags_of_every_scheme_are_read_as_seqeval_reads_them(letters: str) -> None:
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(1)
    choices = ["O", *(f"{letter}-{kind}" for letter in letters[:-1] for kind in ("X", "a-b"))]
    for _ in range(500):
        tags = rng.choices(choices, k=12)
        theirs = [(start, end + 1, kind) for kind, start, end in sequence_labeling.get_entities(
            [tag[:1].translate(SEQEVAL) + tag[1:] for tag in tags])]
        assert tags_to_spans(tags) == theirs


def test_strict_spans_are_those_of_seqeval() -> None:
    scheme = pytest.importorskip("seqeval.scheme")
    rng = random.Random(2)
    for _ in range(500):
        tags = rng.choices(["O", "B-X", "I-X", "B-Y", "I-Y"], k=12)
        [theirs] = scheme.Entities([tags], scheme.IOB2).entities
        assert iob2_spans(tags) == [(one.start, one.end, one.tag) for one in theirs]
