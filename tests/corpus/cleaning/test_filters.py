"""Filters of records, each with handmade cases."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.corpus.cleaning.filters import licence_kind, source_filters, text_filters
from bmtools.corpus.cleaning.settings import FilterConfig
from bmtools.errors import BmtoolsError
from bmtools.records import Record

ENGLISH = "The patient was admitted with fever and a dry cough for three days."
ITALIAN = "Il paziente è stato ricoverato con febbre e tosse secca da tre giorni."
DRUGS = ("Principi attivi: " + "Abacavir, Lamivudina, Zidovudina, Nevirapina, Efavirenz, "
         "Ritonavir, Lopinavir, Saquinavir, Indinavir, Nelfinavir, Amprenavir, "
         "Atazanavir, Tipranavir. " * 3)


def found(config: FilterConfig, **record: Any) -> dict[str, Any]:
    """Return the values that the active filters find in a record."""
    whole = Record({"id": "a", "text": ENGLISH, **record})
    results = {name: find(whole) for filters in (source_filters(config), text_filters(config))
               for name, find in filters.items()}
    return {name: result for name, result in results.items() if result is not None}


@pytest.mark.parametrize(("settings", "record", "expected"), [
    ({"min_words": 13, "max_words": 13, "min_characters": 67}, {}, {}),
    ({"min_words": 14, "min_characters": 68}, {}, {"min-words": 13, "min-characters": 67}),
    ({"max_words": 12}, {}, {"max-words": 13}),
    ({}, {"text": ""}, {"empty": "no text"}),
    ({"from_year": 2000}, {"meta": {"year": 1999}}, {"from-year": 1999}),
    ({"from_year": 2000, "to_year": 2001}, {"meta": {"year": 2001}}, {}),
    ({"to_year": 2000}, {"meta": {"year": "2001"}}, {"to-year": "2001"}),
    ({"to_year": 2000}, {}, {"to-year": "no year"}),
    ({"to_year": 2000}, {"meta": {"year": "c. 1990"}}, {"to-year": "c. 1990"}),
    ({"to_year": "2020-03"}, {"meta": {"year": 2019}}, {}),
    ({"to_year": "2020-03"}, {"meta": {"year": 2020, "month": 3}}, {}),
    ({"to_year": "2020-03"}, {"meta": {"year": 2020, "month": 4}}, {"to-year": "2020-04"}),
    ({"to_year": "2020-03"}, {"meta": {"year": 2021, "month": 1}}, {"to-year": 2021}),
    ({"to_year": "2020-12"}, {"meta": {"year": 2020}}, {"to-year": "2020, no month"}),
    ({"to_year": "2020-03"}, {"meta": {"year": 2020, "month": "May"}}, {"to-year": "2020-May"}),
    ({"from_year": "2020-02", "to_year": 2020}, {"meta": {"year": 2020, "month": 2}}, {}),
    ({"from_year": "2020-02"}, {"meta": {"year": 2020, "month": 1}}, {"from-year": "2020-01"}),
    ({"from_year": "2020-01"}, {"meta": {"year": 2020}}, {"from-year": "2020, no month"}),
    ({"from_year": "2020-02"}, {}, {"from-year": "no year"}),
    ({"to_year": 2020}, {"meta": {"year": 2020, "month": "spring"}}, {}),
    ({"licences": "CC-BY,CC0"}, {"licence": "CC BY 4.0"}, {}),
    ({"licences": "CC-BY"}, {"licence": "CC BY-NC"}, {"licences": "CC BY-NC"}),
    ({"licences": "commercial"}, {"licence": "CC BY-NC-SA"}, {"licences": "CC BY-NC-SA"}),
    ({"licences": "commercial"}, {}, {"licences": "no licence"}),
    ({"licences": "commercial"}, {"licence": "MIT AND CC-BY-4.0"}, {}),
    ({"licences": "CC-BY"}, {"licence": "CC BY 4.0; CC BY-NC 4.0"},
     {"licences": "CC BY 4.0; CC BY-NC 4.0"}),
    ({"licences": "commercial"}, {"licence": "CC-BY-4.0 AND unknown"},
     {"licences": "CC-BY-4.0 AND unknown"}),
    ({"drop_truncated": True}, {"text": "A (ABSTRACT TRUNCATED)"},
     {"drop-truncated": "(ABSTRACT TRUNCATED)"}),
    ({"drop_truncated": True}, {}, {}),
    ({"languages": "en"}, {}, {}), ({"languages": "en"}, {"text": ITALIAN}, {"languages": "it"}),
    ({"languages": "en,it"}, {"text": ITALIAN}, {}),
    ({"languages": "it"}, {"text": DRUGS + 30 * ITALIAN}, {}),
    ({"languages": "it"}, {"text": 9 * ENGLISH + ITALIAN}, {"languages": "en"}),
    ({"languages": "declared"}, {"lang": "it-IT", "text": ITALIAN}, {}),
    ({"languages": "declared"}, {"lang": "it"}, {"languages": "en"}),
    ({"languages": "declared"}, {"lang": "tlh", "text": ITALIAN}, {}),
    ({"languages": "declared,en"}, {"lang": "it"}, {}),
    ({"languages": "declared"}, {}, {}), ({"languages": "it"}, {"text": "Abstract"}, {})])
def test_filters_find_bad_records(settings: dict[str, Any], record: dict[str, Any],
                                  expected: dict[str, Any]) -> None:
    assert found(FilterConfig(**settings), **record) == expected


@pytest.mark.parametrize(("settings", "message"), [
    ({"to_year": "2020-13"}, "to_year: found 2020-13, expected a year, or a month such"),
    ({"from_year": "March 2020"}, "from_year: found March 2020, expected a year, or a month"),
    ({"to_year": -1}, "to_year: found -1, expected 0 or more"),
    ({"to_year": 2020.5}, "to_year: found 2020.5, expected text or a whole number"),
    ({"from_year": "2020-04", "to_year": "2020-03"}, "from_year: found 2020-04, expected at most"),
    ({"from_year": 2021, "to_year": "2020-12"}, "from_year: found 2021, expected at most to_year")])
def test_invalid_dates_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FilterConfig(**settings)


@pytest.mark.parametrize(("licence", "expected"), [
    ("CC BY 4.0", "cc-by"), ("CC-BY", "cc-by"), ("cc_by_nc_sa", "cc-by-nc-sa"),
    ("https://creativecommons.org/licenses/by-nc/4.0/", "cc-by-nc"),
    ("http://creativecommons.org/publicdomain/zero/1.0/", "cc0"), ("CC0 1.0", "cc0"),
    ("Creative Commons Attribution-NonCommercial 3.0 Unported", "cc-by-nc"),
    ("Apache-2.0", "apache"), ("MIT License", "mit"), ("Public Domain", "public-domain"),
    ("https://creativecommons.org/publicdomain/mark/1.0/", "cc-pdm"),
    ("CC BY-SA 3.0 IT", "cc-by-sa"), ("a" + "-" * 400_000 + "b", "a" + "-" * 400_000 + "b")],
    ids=str.__len__)
def test_licences_have_kinds(licence: str, expected: str) -> None:
    assert licence_kind(licence) == expected


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(BmtoolsError, match="languages: found 'english', which py3langid does not"):
        text_filters(FilterConfig(languages="it,english"))
