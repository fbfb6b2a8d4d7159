"""Handling of repeated ids."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bmtools.corpus.importing import Duplicates, with_unique_ids
from bmtools.errors import RecordError
from bmtools.records import Record

GIVEN = ["a", "b", "a", "a-2", "a", "b"]


def records(ids: list[str]) -> list[Record]:
    return [Record(id=name, text="", place=f"f:{line}") for line, name in enumerate(ids, 1)]


@pytest.mark.parametrize(("duplicates", "expected"), [
    ("drop", ["a", "b", "a-2"]),
    ("keep", GIVEN),
    ("rename", ["a", "b", "a-2", "a-2-2", "a-3", "b-2"])])
def test_duplicates_are_dropped_renamed_or_kept(duplicates: Duplicates,
                                                expected: list[str]) -> None:
    found = with_unique_ids(records(GIVEN), duplicates, Counter())
    assert [record["id"] for record in found] == expected


def test_a_rejected_duplicate_names_both_lines() -> None:
    with pytest.raises(RecordError, match="f:3: found the id 'a' again, after f:1"):
        list(with_unique_ids(records(GIVEN)))
    rejected: list[RecordError] = []
    kept = list(with_unique_ids(records(GIVEN), reject=rejected.append))
    assert [record["id"] for record in kept] == ["a", "b", "a-2"]
    assert [error.place for error in rejected] == ["f:3", "f:5", "f:6"]


def test_unique_ids_equal_a_python_set() -> None:
    rng = random.Random(1)
    ids = [str(rng.randrange(20_000)) for _ in range(30_000)]
    counts: Counter[str] = Counter()
    kept = list(with_unique_ids(records(ids), "drop", counts))
    assert [record["id"] for record in kept] == list(dict.fromkeys(ids))
    assert sum(counts.values()) == len(ids) - len(kept)
