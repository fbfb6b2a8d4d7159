"""Maskings under several models, collected, sorted, counted and named."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.study.reports.labels import DASH
from bmtools.study.reports.mrr_plots import count_flow, level_names
from bmtools.study.reports.mrr_summary import (
    MrrCollector,
    MrrEstimate,
    MrrItem,
    MrrSummary,
    choose_item,
    matching_proposal,
    sort_by_agreement,
)


def scored(name: str, *ranks: int | None, domain: str | None = None,
           proposals: tuple[tuple[tuple[str, float], ...], ...] = (),
           target: str = "cuore") -> MrrItem:
    """Make a masking whose first five ranks count."""
    return MrrItem(name, "Il [MASK] batte.", target, domain, ranks,
                   tuple(1 / rank if rank and rank <= 5 else 0.0 for rank in ranks), proposals)


def test_maskings_are_sorted_by_whether_models_agree() -> None:
    first, third = scored("first", 1, 1), scored("third", 3, 3)
    never, absent = scored("never", 6, 900), scored("absent", None, 7)
    better, lost = scored("better", 4, 2), scored("lost", 5, None)
    parts = sort_by_agreement([first, better, never, third, lost, absent])
    assert parts == ([better, lost], [first, third], [never, absent])


def test_the_masking_shown_differs_most_then_takes_most_values_then_comes_first() -> None:
    near = scored("near", 2, 1, 1)
    two_values, three, later = scored("a", 9, 1, 1), scored("b", 9, 2, 1), scored("c", 9, 3, 1)
    assert choose_item([near, two_values, three, later]).name == "b"
    assert choose_item([near, two_values]).name == "a"
    assert choose_item([near, two_values, three], "near").name == "near"
    with pytest.raises(DataError, match=r"sentence: found 'x', .* such as 'near'"):
        choose_item([near], "x")


@pytest.mark.parametrize(("top", "names"), [
    (5, ["1st", "2nd", "3rd", "4th", "5th", "beyond"]),
    (2, ["1st", "2nd", "beyond"]),
    (1, ["1st", "beyond"]),
    (12, ["1st", "2nd", "3rd", "4th", "5th", "6th-10th", "11th-12th", "beyond"]),
    (11, ["1st", "2nd", "3rd", "4th", "5th", "6th-10th", "11th", "beyond"]),
])
def test_levels_cover_the_ranks(top: int, names: list[str]) -> None:
    def level(rank: int | None) -> int:
        (found, _), = count_flow([scored("a", rank, rank)], 0, 1, top)
        return found

    labels = level_names(top)
    assert [name.replace(DASH, "-") for name in labels] == names
    for rank in range(1, top + 1):
        low, _, high = labels[level(rank)].partition(DASH)
        ends = [int(part.rstrip("stndrh")) for part in (low, high or low)]
        assert ends[0] <= rank <= ends[1]
    assert {level(rank) for rank in (None, top + 1, 10**6)} == {len(names) - 1}


def test_the_flow_counts_each_masking_once() -> None:
    rng = random.Random(3)
    maskings = [scored(str(n), *rng.choices([1, 2, 3, 4, 5, 6, 70, None], k=3)) for n in range(200)]
    counts = count_flow(maskings, 0, 2, 5)

    def capped(rank: int | None) -> int:
        return rank - 1 if rank is not None and rank < 6 else 5

    assert counts == Counter((capped(m.ranks[0]), capped(m.ranks[2])) for m in maskings)
    assert counts.total() == 200


@pytest.mark.parametrize(("target", "rank", "tokens", "marked"), [
    ("Mobilità", 2, ("forza", "mobilita"), 1),
    ("cuore", 1, ("##cuore", "x"), 0),
    ("cardiologia", 1, ("cardio", "x"), 0),
    ("cuore", 3, ("a", "b"), None),
    ("cuore", None, ("cuore", "b"), None),
    ("cuore", 1, ("fegato", "b"), None),
    ("cuore", 1, ("", "b"), None),
])
def test_the_word_is_marked_at_its_rank(
        target: str, rank: int | None, tokens: tuple[str, ...], marked: int | None) -> None:
    masking = scored("m", rank, target=target, proposals=(tuple((t, 0.1) for t in tokens),))
    assert matching_proposal(masking, 0) == marked


def test_scores_of_lines_win_over_own_counts() -> None:
    maskings = [scored("a", 1, 2, domain="Cuore"), scored("b", 9, 4, domain="Ossa"),
                scored("c", 2, 9, domain="Cuore")]
    lines = [{"model": "two", "mrr": 0.9, "interval": [0.8, 1.0], "maskings": 7}]
    summary = MrrSummary.of(maskings, ["one", "two"], lines)
    assert summary.estimates == [MrrEstimate(0.5, None, 3), MrrEstimate(0.9, (0.8, 1.0), 7)]
    assert summary.groups == {"domain": {
        "Cuore": [MrrEstimate(0.75, None, 2), MrrEstimate(0.25, None, 2)],
        "Ossa": [MrrEstimate(0.0, None, 1), MrrEstimate(0.25, None, 1)]}}


def test_incomplete_groups_of_lines_are_read() -> None:
    lines = [{"model": "one", "by": {"domain": {"Cuore": {"mrr": 0.5, "count": 4}},
                                     "length": {"1": 0.25, "2": "?"}, "odd": 3}},
             {"model": "two", "by": {"domain": {"Ossa": {"mrr": 0.1, "interval": [0, 0.2]}}}}]
    items = [scored("a", 1, 1, domain="Altro")]
    assert MrrSummary.of(items, ["one", "two"], lines).groups == {
        "domain": {"Cuore": [MrrEstimate(0.5, None, 4), None],
                   "Ossa": [None, MrrEstimate(0.1, (0.0, 0.2))]},
        "length": {"1": [MrrEstimate(0.25), None], "2": [None, None]}}
    assert MrrSummary.of([scored("a", 1)], ["one"], []).groups == {}


class Scored:
    """Stands for a score of one masking under one model."""

    def __init__(self, number: int, predictor: int, target: str, reciprocal: float) -> None:
        self.record = Record(id=str(number), text="il [MASK]", target=target, domain="Cardio")
        self.predictor, self.reciprocal_rank = predictor, reciprocal
        self.rank = round(1 / reciprocal) if reciprocal > 0 else None
        self.proposals = (("cuore", 0.5),)


def gather(models: int, *rows: tuple[Any, ...]) -> MrrCollector:
    collector = MrrCollector(models)
    for number, (target, *reciprocals) in enumerate(rows):
        for predictor, reciprocal in enumerate(reciprocals):
            collector.add(Scored(number, predictor, target, reciprocal))  # type: ignore[arg-type]
    return collector


def test_each_masking_under_all_models_but_no_baseline() -> None:
    # The third column is a baseline's.
    collector = gather(2, ("cuore", 1.0, 0.5, 0.2), ("rene", 0, 1.0, 0.2))
    first, second = collector.items
    assert (first.name, first.target, first.domain) == ("0", "cuore", "Cardio")
    assert (first.ranks, first.reciprocal_ranks) == ((1, 2), (1.0, 0.5))
    assert (second.ranks, second.proposals) == ((None, 1), ((("cuore", 0.5),),) * 2)
    assert not gather(0, ("cuore", 1.0)).items


def test_words_by_whether_they_are_found() -> None:
    collector = gather(2, ("cuore", 1.0, 1.0), ("rene", 0, 0), ("cuore", 1.0, 0.5),
                       ("aria", 1.0, 1.0))
    assert list(collector.word_lines(["a", "b"])) == [
        {"word": "cuore", "maskings": 2, "found": "sometimes", "mrr": {"a": 1, "b": 0.75}},
        {"word": "rene", "maskings": 1, "found": "never", "mrr": {"a": 0, "b": 0}},
        {"word": "aria", "maskings": 1, "found": "always", "mrr": {"a": 1, "b": 1}}]


def test_words_that_a_model_leaves_out() -> None:
    """A masking that one model skips tells nothing of how they compare."""
    nan = math.nan
    collector = gather(2, ("cuore", nan, 1.0), ("cuore", 1.0, 1.0), ("rene", 0, nan),
                       ("aria", nan, nan))
    assert list(collector.word_lines(["a", "b"])) == [
        {"word": "cuore", "maskings": 2, "found": "always", "mrr": {"a": 1, "b": 1}},
        {"word": "rene", "maskings": 1, "found": "skipped", "mrr": {"a": 0, "b": None}},
        {"word": "aria", "maskings": 1, "found": "skipped", "mrr": {"a": None, "b": None}}]
    assert [item.name for item in collector.items] == ["1"]
