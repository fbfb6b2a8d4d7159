"""Calibration on gold."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.translation.projection.gold import calibrate
from bmtools.translation.projection.settings import ProjectionConfig

EXACT = ProjectionConfig(methods=("exact",), edges=False)


def record(identifier: str, text: str, spans: list[tuple[int, int]], place: str,
           lang: str = "en", ids: list[str] | None = None) -> Record:
    entities: list[dict[str, Any]] = [
        {"start": start, "end": end, "type": "D", **({"id": ids[number]} if ids else {})}
        for number, (start, end) in enumerate(spans)]
    return Record({"id": identifier, "text": text, "lang": lang, "entities": entities},
                  place=place)


def test_precision_is_the_share_of_spans_at_their_gold_place() -> None:
    sources = [record("1", "DNA and RNA.", [(0, 3), (8, 11)], "en:1", ids=["x", "y"]),
               record("2", "HIV", [(0, 3)], "en:2")]
    gold = [record("1", "RNA e DNA.", [(0, 3), (6, 9)], "it:1", "it", ids=["y", "x"]),
            record("2", "HIV o AIDS", [(6, 10)], "it:2", "it")]
    found = calibrate(sources, gold, EXACT)
    assert found.spans == 3
    assert found.precisions["exact"] == pytest.approx((2 + 1) / (3 + 2))
    assert found.error is None


@pytest.mark.parametrize(("gold", "right"), [((7, 13), 1), ((7, 11), 0)])
def test_gold_of_whole_words_is_compared_word_by_word(gold: tuple[int, int], right: int) -> None:
    """`HIV` is found at 8 to 11; between the two spaces, 7 to 13 is one word."""
    found = calibrate([record("1", "No HIV here", [(3, 6)], "en:1")],
                      [record("1", "Nessun (HIV), qui", [gold], "it:1", "it")], EXACT)
    assert found.precisions["exact"] == pytest.approx((right + 1) / 3, abs=1e-4)


def test_each_file_is_a_set() -> None:
    sources = [record(str(number), "HIV", [(0, 3)], f"en:{number}") for number in range(4)]
    gold = [record(str(number), "HIV", [(0, 3)], f"it{number % 2}:1", "it")
            for number in range(4)]
    found = calibrate(sources, gold, EXACT)
    assert found.origin == "it0, it1"
    assert found.error is not None


def test_gold_with_other_annotations_is_left_out() -> None:
    source = record("1", "HIV", [(0, 3)], "en:1")
    with pytest.raises(DataError, match="found no annotation in both a record and its transl"):
        calibrate([source], [record("1", "HIV, DNA", [(0, 3), (5, 8)], "it:1", "it")], EXACT)
