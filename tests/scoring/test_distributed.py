"""Windows of records: their order, their bounds, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.scoring import distributed as crew
from bmtools.scoring.distributed import WindowResult, asked_of_all, score_in_windows


def records(count: int) -> Iterator[Record]:
    return (Record(id=str(number), text="x", place=f"s:{number}") for number in range(count))


def work(window: list[Record]) -> WindowResult[str]:
    asked, refused = asked_of_all(window, ["a", "b"], ask)
    return WindowResult(["".join(questions) for _, questions in asked], refused)


def ask(predictor: str, record: Record) -> str:
    if record["id"].endswith("7") and predictor == "b":
        raise RecordError(record.place, "found a seven", record)
    return predictor + record["id"]


def test_scores_come_in_order_and_refused_records_before_those_of_their_window() -> None:
    events: list[str] = []
    for found in score_in_windows(records(600), work, lambda error: events.append(error.place)):
        events.append(found)
    expected = [f"a{number}b{number}" for number in range(600) if number % 10 != 7]
    assert [event for event in events if event.startswith("a")] == expected
    assert [event for event in events if event.startswith("s")] == [
        f"s:{number}" for number in range(7, 600, 10)]
    assert events.index("s:247") < events.index("a0b0") < events.index("s:257")


def test_a_refused_record_stops_where_nobody_collects() -> None:
    def refuse(error: RecordError) -> None:
        raise error

    with pytest.raises(RecordError, match="s:7: found a seven"):
        list(score_in_windows(records(20), work, refuse))


def test_no_more_is_read_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_WINDOW", 4)
    pending = records(100)
    next(score_in_windows(pending, work, lambda error: None))
    assert next(pending)["id"] == "4"
