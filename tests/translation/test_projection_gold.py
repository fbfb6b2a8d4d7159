"""Tests of the projection gold made by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from projection_gold import gold_records, source_records

from bmtools.records import check


def test_spans_agree_with_their_text() -> None:
    gold = gold_records()
    assert len(gold) == len({record["id"] for record in gold}) == 200
    for record in gold:
        check(record)
        for entity in record["entities"]:
            assert record["text"][entity["start"]:entity["end"]] == entity["text"].strip()


def test_spans_are_whole_words_apart_from_each_other() -> None:
    for record in gold_records():
        spans = sorted((one["start"], one["end"]) for one in record["entities"])
        assert all(one[1] <= other[0] for one, other in pairwise(spans)), record["id"]
        for start, end in spans:
            around = record["text"][max(0, start - 1):start] + record["text"][end:end + 1]
            # 5-HT2C: the receptor's subtype is no part of the transmitter's name.
            assert not any(map(str.isalpha, around)), (record["id"], around)


@pytest.mark.data
def test_each_english_entity_has_a_place_or_is_absent(data: Path) -> None:
    gold, sources = gold_records(), source_records(data)
    entities = 0
    for ours, source in zip(gold, sources, strict=True):
        check(source)
        types = {one["id"]: one["type"] for one in source["entities"]}
        found = [one["id"] for one in ours["entities"]]
        assert sorted(found + ours["meta"]["absent"]) == sorted(types)
        assert all(types[one["id"]] == one["type"] for one in ours["entities"])
        entities += len(found)
    assert entities == 462
