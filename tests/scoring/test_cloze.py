"""Cloze items: the masked words, and the record around them."""

# ruff: noqa: RUF001
from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import RecordError
from bmtools.io.jsonl import RecordReader
from bmtools.records import MASK, Record, check
from bmtools.scoring import cloze
from bmtools.scoring.cloze import make_clozes
from bmtools.text.case_folding import CASELESS
from bmtools.text.word_lists import WordList


def listed(*terms: str) -> WordList:
    return WordList.of(terms, CASELESS)


def marked(text: str, *mentions: str, **keys: Any) -> Record:
    """A record with entities at the first positions of mentions; `KIND:mention` sets a type."""
    entities = []
    for mention in mentions:
        kind, _, words = mention.rpartition(":")
        start = text.index(words)
        entities.append({"start": start, "end": start + len(words), "type": kind or "D"})
    return Record(id="a", text=text, entities=entities, **keys)


def masked_words(record: Record, terms: WordList | None = None) -> list[str]:
    """List the masked words, and check each record."""
    found = list(make_clozes([record], terms))
    for number, one in enumerate(found, 1):
        check(one)
        assert one["id"] == f"{record['id']}-m{number}"
        assert one.place == record.place
        assert one["text"].replace(MASK, one["target"]) == record["text"]
    places = [one["text"].index(MASK) for one in found]
    assert places == sorted(set(places))
    return [one["target"] for one in found]


def plain(text: str) -> Record:
    return Record(id="a", text=text, place="notes.jsonl:3")


@pytest.mark.parametrize(("text", "terms", "words"), [
    ("Il diabete, poi l'insulina.", ["insulina", "diabete"], ["diabete", "insulina"]),
    ("DIABETE e Diabete.", ["diabete"], ["DIABETE", "Diabete"]),
    ("Prediabete e diabetico.", ["diabete"], []),
    ("Il diabete mellito di tipo 2.", ["diabete mellito di tipo 2", "diabete", "mellito"],
     ["diabete", "mellito", "di", "tipo", "2"]),
    ("Ha (TNF-alpha), la fistola artero-venosa", ["tnf-alpha", "fistola artero-venosa"],
     ["TNF", "alpha", "fistola", "artero", "venosa"]),
    ("Crohn's disease, dell'addome, L’asma", ["Crohn's disease", "l’asma", "dell'addome"],
     ["Crohn", "disease", "dell", "addome", "asma"]),
    ("A 5'-nucleotidase of 60% and Ca2+ ions", ["5'-nucleotidase", "60%", "ca2+ ions"],
     ["5", "nucleotidase", "60", "Ca2", "ions"]),
    ("acute renal\tfailure", ["renal failure", "acute renal"], ["acute", "renal", "failure"]),
    ("Straße der Σίσυφος", ["STRASSE", "σίσυφοσ"], ["Straße", "Σίσυφος"]),
    ("perche\u0301 no", ["perch\u00e9"], ["perche\u0301"]),
    ("患者糖尿病", ["糖尿病"], ["糖尿病"]),
])
def test_words_of_terms_are_masked(text: str, terms: list[str], words: list[str]) -> None:
    assert masked_words(plain(text), listed(*terms)) == words


def test_words_of_entities_are_masked() -> None:
    record = marked("With severe (renal) failure.", "severe (renal) failure")
    assert masked_words(record) == ["severe", "renal", "failure"]


def test_words_are_found_at_their_own_position() -> None:
    """`in` is also inside `insulin`, which comes first."""
    found = list(make_clozes([marked("insulin in in-patients", "insulin in in-patients")], None))
    assert [one["text"] for one in found] == [
        "[MASK] in in-patients", "insulin [MASK] in-patients", "insulin in [MASK]-patients",
        "insulin in in-[MASK]"]


def test_each_position_is_masked_once() -> None:
    record = marked("Acute renal failure.", "Acute renal failure", "S:renal", "T:failure")
    assert masked_words(record, listed("renal failure")) == ["Acute", "renal", "failure"]
    assert {one["type"] for one in make_clozes([record], listed("renal failure"))} == {"D"}


def test_other_keys_are_kept() -> None:
    record = marked("An ulcer.", "U:ulcer", lang="en", labels=["x"], meta={"start": 3},
                    spans=[], answers=[{"text": "An"}])
    (one,) = make_clozes([record], None)
    assert one == {"id": "a-m1", "text": "An [MASK].", "lang": "en", "labels": ["x"],
                   "meta": {"start": 3}, "spans": [], "answers": [{"text": "An"}],
                   "target": "ulcer", "type": "U"}


def test_discontinuous_entities_are_skipped_and_counted() -> None:
    skipped: Counter[str] = Counter()
    record = Record(id="a", text="renal and liver failure", entities=[
        {"start": 0, "end": 23, "type": "D", "spans": [(0, 5), (16, 23)]},
        {"start": 10, "end": 23, "type": "D", "spans": [(10, 23)]}])
    found = make_clozes([record], None, skipped=skipped)
    assert [one["target"] for one in found] == ["liver", "failure"]
    assert +skipped == {"discontinuous entities skipped": 1}


def test_entities_outside_the_text_are_rejected() -> None:
    bad = Record(id="a", text="ulcer", place="notes.jsonl:3",
                 entities=[{"start": 3, "end": 9, "type": "D"}])
    with pytest.raises(RecordError, match=r"^notes.jsonl:3: key 'entities\[0\]': found start 3"):
        list(make_clozes([bad], None))
    errors: list[RecordError] = []
    found = list(make_clozes([bad, plain("An ulcer.")], listed("ulcer"), reject=errors.append))
    assert [one["target"] for one in found] == ["ulcer"]
    assert [error.content for error in errors] == [bad]


def test_records_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is kept, and few records are read in advance."""
    records = [Record(id=str(number), text="An ulcer." * (number % 3)) for number in range(20)]
    expected = list(make_clozes(records, listed("ulcer")))
    monkeypatch.setattr(cloze, "_RECORDS_AT_ONCE", 3)
    pending = iter(records)
    found = make_clozes(pending, listed("ulcer"))
    assert next(found)["id"] == "1-m1"
    assert next(pending)["id"] == "3"
    monkeypatch.setattr(cloze, "_RECORDS_AT_ONCE", 1000)
    monkeypatch.setattr(cloze, "_CHARACTERS_AT_ONCE", 20)
    assert list(make_clozes(records, listed("ulcer"))) == expected
    pending = iter(records)
    next(make_clozes(pending, listed("ulcer")))
    assert next(pending)["id"] == "3"


@pytest.mark.data
def test_terms_in_real_text_equal_a_simple_search(data: Path) -> None:
    """The simple search looks at every run of letters and digits, one word at a time."""
    terms = ["insulina", "diabete", "dialisi", "TC", "addome", "ipertensione"]
    wanted = {term.casefold() for term in terms}
    source = data / "it" / "corpus" / "native-clinical.jsonl"
    records = [record for _, record in zip(range(150), RecordReader([str(source)]), strict=False)]
    found = [(one["id"].rpartition("-m")[0], one["text"].index(MASK), one["target"])
             for one in make_clozes(records, listed(*terms))]
    expected = [(record["id"], start, word) for record in records
                for start, word in runs(record["text"]) if word.casefold() in wanted]
    assert found == expected
    assert len(found) > 40


def runs(text: str) -> list[tuple[int, str]]:
    kinds = [unicodedata.category(one)[0] in "LMN" for one in text]
    begins = [n for n, kind in enumerate(kinds) if kind and not (n and kinds[n - 1])]
    return [(n, text[n:next((end for end in range(n, len(text)) if not kinds[end]), len(text))])
            for n in begins]
