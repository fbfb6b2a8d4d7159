"""Groups by keys, counted by hand; hashes of data."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

from bmtools.errors import BmtoolsWarning, RecordError
from bmtools.records import Record
from bmtools.statistics.lines import Groups, adjust_p_values, content_key, data_fields
from bmtools.statistics.ratios import Units, with_unit


@pytest.mark.parametrize(("record", "unit"), [
    ({"id": "7-s3", "meta": {"document": "D"}}, "D"),
    ({"id": "7-s3", "meta": {"document": 12}}, "12"),
    ({"id": "D-s3"}, "D"),
    ({"id": "11724768_s0", "meta": {}}, "11724768"),   # HoC
    ({"id": "DDI-MedLine.d0.s12"}, "DDI-MedLine.d0"),
    ({"id": "notes:12-s3-m2"}, "notes:12"),            # a masking of a sentence
    ({"id": "D-s3#120"}, "D"),                         # a context from find-contexts
    ({"id": "D-s3-s1"}, "D"),
    *[({"id": own}, None) for own in ("D", "notes:12", "12-3", "D-m1", "1-it", "-s3", "D-s", 7)],
])
def test_unit_is_the_document_by_default(record: dict[str, Any], unit: str | None) -> None:
    units = Units(None)
    units.add(record, "own", "text")
    assert units.keys.tolist() == [content_key(unit) if unit else content_key("own", "text")]
    assert units.kind == ("document" if unit else "record")


def test_unit_can_be_another_key() -> None:
    records = [Record(id=f"D-s{number}", meta={"patient": number % 3}, place=f"p:{number}")
               for number in range(12)]
    units = Units("meta.patient")
    for record in with_unit(records, "meta.patient", pytest.fail):
        units.add(record)
    assert (len({*units.keys.tolist()}), units.kind) == (3, "meta.patient")
    with pytest.warns(BmtoolsWarning, match=r"^found 3 units by meta.patient, but an interval "
                      "needs 10; if records do not depend on each other, use unit id"):
        units.warn()
    refused: list[RecordError] = []
    assert not [*with_unit(records, "patient", refused.append)]
    assert str(refused[0]) == "p:0: key 'patient' is missing, expected the unit of the record, " \
        "because unit is this key"


def test_items_are_grouped_by_value() -> None:
    groups = Groups(["domain", "meta.year", "labels"])
    for record in ({"domain": "Cardio", "meta": {"year": 2020}, "labels": ["a", "b"]},
                   {"domain": "Neuro", "meta": {"year": 2021}},
                   {"meta": "2020", "domain": "Cardio"},
                   {"domain": None, "meta": {"year": 2020}, "labels": []}):
        groups.add(record)
    found = groups.scores(lambda members: {"members": members.tolist()})
    assert [(key, value, line["members"]) for key, lines in found.items()
            for value, line in lines.items()] == [
        ("domain", "Cardio", [0, 2]), ("domain", "Neuro", [1]), ("domain", "-", [3]),
        ("meta.year", "2020", [0, 3]), ("meta.year", "2021", [1]), ("meta.year", "-", [2]),
        ("labels", "a, b", [0]), ("labels", "-", [1, 2]), ("labels", "", [3])]


def test_data_hash_identifies_items_in_any_order() -> None:
    texts = [("il [MASK]", "cuore"), ("il [MASK]", "rene"), ("il [MASK] cuore", ""),
             ("il [MASK]", "rene")]
    keys = [content_key(*one) for one in texts]
    assert keys[0] == 8994825106018832395  # the same in every run
    assert len(set(keys)) == 3
    [shown] = data_fields(sum(keys)).values()
    assert data_fields(sum(keys[::-1])) == {"data": shown}
    assert len(shown) == 12
    # Duplicate and different texts change the hash.
    others = [sum(keys[:3]), sum(keys[1:]), sum([*keys[:3], content_key("il [MASK]", "mano")])]
    assert shown not in {value for one in others for value in data_fields(one).values()}


@pytest.mark.parametrize(("models", "unit", "units", "message"), [
    (11, "document", 10, "p_holm of 55 comparisons cannot fall below 0.107 with 10 units by "
     "document, however much the models differ; score more of them or make fewer comparisons; if "
     "records do not depend on each other, use unit id"),
    (2, "record", 5, "p_holm of 1 comparison cannot fall below 0.062 with 5 units by record, "
     "however much the models differ; score more of them or make fewer comparisons"),
    (11, "document", 12, ""), (2, "record", 6, "")])
def test_too_few_units_for_significance_warn_once(models: int, unit: str, units: int,
                                                  message: str) -> None:
    count = models * (models - 1) // 2
    lines = [{"metric": metric, "p": 2 / 2**units, "unit": unit, "units": units}
             for metric in ("pppl", "loss") for _ in range(count)]
    if message:
        with pytest.warns(BmtoolsWarning, match=f"^{re.escape(message)}$") as caught:
            adjust_p_values(lines)
        assert len(caught) == 1
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            adjust_p_values(lines)
    assert (lines[0]["p_holm"] > 0.05) == bool(message)
