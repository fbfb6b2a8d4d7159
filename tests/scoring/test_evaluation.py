"""Windows of records: their order, bounds and rejected records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from bmtools.errors import RecordError, Reject
from bmtools.records import Record
from bmtools.scoring.evaluation import score_in_windows

PREDICTORS: Any = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]


def records(count: int) -> Iterator[Record]:
    return (Record(id=str(number), text="x", place=f"s:{number}") for number in range(count))


def prepare(predictor: Any, record: Record) -> str:
    if record["id"].endswith("7") and predictor.name == "b":
        raise RecordError(record.place, "found a seven", record)
    return f"{predictor.name}{record['id']}"


def score(index: int, kept: Sequence[Record], inputs: Sequence[str]) -> list[str]:
    assert [f"{PREDICTORS[index].name}{record['id']}" for record in kept] == inputs
    return [f"score of {one}" for one in inputs]


def run(pending: Iterator[Record], reject: Reject) -> Iterator[str]:
    return score_in_windows(pending, PREDICTORS, prepare, score, reject)


def test_scores_are_in_order_after_the_rejected_records_of_their_window() -> None:
    events: list[str] = []
    for found in run(records(600), lambda error: events.append(error.place)):
        events.append(found)
    expected = [f"score of {name}{number}" for number in range(600) if number % 10 != 7
                for name in "ab"]
    assert [event for event in events if event.startswith("score")] == expected
    assert [event for event in events if event.startswith("s:")] == [
        f"s:{number}" for number in range(7, 600, 10)]
    assert events.index("s:247") < events.index("score of a0") < events.index("s:257")
