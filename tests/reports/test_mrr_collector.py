"""Collection of scores, word by word."""

from __future__ import annotations

from typing import Any

from bmtools.records import Record
from bmtools.reports.mrr_collector import MrrCollector


class Scored:
    """Stands for a score of one masking under one model."""

    def __init__(self, number: int, predictor: int, target: str, reciprocal: float) -> None:
        self.record = Record(id=str(number), text="il [MASK]", target=target, domain="Cardio")
        self.predictor, self.reciprocal_rank = predictor, reciprocal
        self.rank = round(1 / reciprocal) if reciprocal else None
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
