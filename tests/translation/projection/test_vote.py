"""Vote of methods on places."""

from __future__ import annotations

import pytest

from bmtools.translation.projection.pairs import Projection
from bmtools.translation.projection.vote import by_span, overlap, vote

LONG, SHORT, FAR = Projection(0, 10, 0.9), Projection(0, 8, 0.9), Projection(20, 30, 1.0)


def test_the_place_with_most_support_wins() -> None:
    precisions = {"a": 0.9, "b": 0.8, "c": 0.6}
    rules = {"b": ("punctuation",)}
    assert vote({"a": FAR, "b": SHORT, "c": LONG}, rules, precisions).place == FAR
    both = vote({"a": LONG, "b": SHORT, "c": FAR}, rules, precisions)
    assert (both.place, both.rules) == (LONG, ())
    agreed = vote({"a": None, "b": SHORT, "c": FAR}, rules, precisions)
    assert (agreed.place, agreed.rules) == (SHORT, ("punctuation",))
    assert vote({"a": None}, {}, {}).place is None


def test_methods_that_were_never_measured_vote_too() -> None:
    assert vote({"new": SHORT, "a": None}, {}, {"a": 0.9}).place == SHORT
    # Those that were measured by themselves count for more, until a calibration knows better.
    candidates = {"markers": SHORT, "embeddings": FAR}
    assert vote(candidates, {}, {"a": 0.9}).place == SHORT
    assert vote(candidates, {}, {"markers": 0.6}).place == FAR


@pytest.mark.parametrize(("one", "other", "expected"), [
    (LONG, LONG, 1), (LONG, SHORT, 16 / 18), (LONG, FAR, 0)])
def test_overlap_is_the_f1_of_characters(one: Projection, other: Projection,
                                         expected: float) -> None:
    assert overlap(one, other) == overlap(other, one) == pytest.approx(expected)


def test_spans_are_seen_by_all_methods() -> None:
    assert by_span({"a": [[LONG], []], "b": [[None], []]}) == [[{"a": LONG, "b": None}], []]
