"""Tests of the manual projection gold."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from projection_gold import (
    CONTRADICTORY,
    ORIGIN,
    gold_documents,
    gold_records,
    kept,
    left_out,
    source_records,
)

from bmtools.records import check
from bmtools.translation.projection.confidence import read_calibration
from bmtools.translation.projection.gold import calibration_error, fit_calibration, gold_samples
from bmtools.translation.projection.settings import ProjectionConfig


def test_spans_agree_with_their_text() -> None:
    gold = gold_records()
    assert len(gold) == len({record["id"] for record in gold}) == 200
    for record in gold:
        check(record)
        for entity in record["entities"]:
            assert record["text"][entity["start"]:entity["end"]] == entity["text"].strip()


def test_spans_are_whole_words_without_overlap() -> None:
    for record in gold_records():
        spans = sorted((one["start"], one["end"]) for one in record["entities"])
        assert all(one[1] <= other[0] for one, other in pairwise(spans)), record["id"]
        for start, end in spans:
            around = record["text"][max(0, start - 1):start] + record["text"][end:end + 1]
            # 5-HT2C: the receptor's subtype is not part of the transmitter's name.
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


@pytest.mark.data
def test_the_confidence_holds_within_the_sentences_of_a_set_left_out(data: Path) -> None:
    """Most misses on AbstRCT are errors of its gold; see docs/results.md."""
    samples, methods = gold_samples(gold_documents(data), ProjectionConfig())
    found = left_out(samples)
    everything = {name: [(confidence, right) for confidence, right, _ in own]
                  for name, own in found.items()}
    consistent = {name: [(confidence, right) for confidence, right, contradictory in own
                         if not contradictory] for name, own in found.items()}
    errors, others = ({name: calibration_error(own) for name, own in both.items()}
                      for both in (everything, consistent))
    assert errors["abstrct"] < 0.11
    assert max(*others.values(), errors["casimedicos"], errors["mentions"]) < 0.05
    assert min(kept(everything[name]) for name in ("casimedicos", "mentions")) >= 0.99
    fitted = fit_calibration([(name.removesuffix(CONTRADICTORY), *rest)
                              for name, *rest in samples], methods, ORIGIN)
    shipped = read_calibration()
    assert (fitted.origin, fitted.spans, fitted.whole) == (
        shipped.origin, shipped.spans, shipped.whole)
    assert fitted.weights == pytest.approx(shipped.weights, abs=0.01)
    assert fitted.errors == pytest.approx(shipped.errors, abs=0.002)
