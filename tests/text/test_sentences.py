"""Documents split into sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.standoff import standoff_records
from bmtools.corpus.formats.texts.pubmed import pubmed_records
from bmtools.records import Record, check
from bmtools.text.sentences import sentence_records


def cut(record: Record) -> list[Record]:
    found = list(sentence_records([record]))
    for sentence in found:
        check(sentence)
    return found


def entity(text: str, mention: str, **keys: object) -> dict:
    start = text.index(mention)
    return {"start": start, "end": start + len(mention), "type": "X", "text": mention, **keys}


def test_sentence_records_have_ids_offsets_and_other_keys() -> None:
    record = Record(id="7", text=" One. Two here. ", lang="en", title="T", meta={"year": 1990},
                    place="f:3")
    first, second = cut(record)
    assert first == {"id": "7-s1", "text": "One.", "lang": "en", "title": "T",
                     "meta": {"year": 1990, "document": "7", "start": 1}}
    assert (second["id"], second["text"], second["meta"]["start"]) == ("7-s2", "Two here.", 6)
    assert second.place == "f:3"


def test_offsets_of_entities_and_relations_are_recomputed() -> None:
    text = "Aspirin stops pain. Ibuprofen does too."
    record = Record(id="1", text=text, lang="en", relations=[
        {"head": "a", "tail": "b", "type": "R"}], entities=[
            entity(text, "Aspirin", id="a"), entity(text, "pain", id="b"),
            entity(text, "Ibuprofen", id="c")])
    first, second = cut(record)
    assert [item["start"] for item in first["entities"]] == [0, 14]
    assert second["entities"] == [{"start": 0, "end": 9, "type": "X", "text": "Ibuprofen",
                                   "id": "c"}]
    assert len(first["relations"]) == 1
    assert second["relations"] == []


def test_an_entity_across_a_border_joins_the_sentences() -> None:
    text = "It was bad. It was worse. It ended."
    record = Record(id="1", text=text, lang="en", entities=[entity(text, "bad. It")])
    counts: Counter[str] = Counter()
    found = list(sentence_records([record], counts))
    assert [item["text"] for item in found] == ["It was bad. It was worse.", "It ended."]
    assert found[0]["entities"][0]["text"] == "bad. It"
    assert +counts == {"sentence borders inside an entity or a relation left out": 1}


def test_a_relation_across_a_border_joins_the_sentences() -> None:
    text = "One is. Two is. Three is. Four is."
    record = Record(id="1", text=text, lang="en", entities=[
        entity(text, "One", id="a"), entity(text, "Three", id="b")],
                    relations=[{"head": "b", "tail": "a", "type": "R"}])
    found = cut(record)
    assert [item["text"] for item in found] == ["One is. Two is. Three is.", "Four is."]
    assert found[0]["relations"] == record["relations"]


def test_a_section_ends_a_sentence_and_is_clipped() -> None:
    text = "AIM: to see\nMETHODS: We looked. Twice."
    record = Record(id="1", text=text, lang="en", meta={"sections": [
        {"label": "AIM", "start": 5, "end": 11}, {"label": "METHODS", "start": 21, "end": 38}]})
    found = cut(record)
    assert [item["text"] for item in found] == ["AIM: to see", "METHODS: We looked.", "Twice."]
    assert [item["meta"]["sections"] for item in found] == [
        [{"label": "AIM", "start": 5, "end": 11}], [{"label": "METHODS", "start": 9, "end": 19}],
        [{"label": "METHODS", "start": 0, "end": 6}]]


@pytest.mark.data
def test_no_entity_is_lost_in_real_documents(data: Path) -> None:
    where = data / "it/ner/BC5CDR_CDR"
    records = [record.replace(lang="it") for record in standoff_records(
        [str(where / "test_corpus.txt")], [str(where / "test_annotations.txt")])]
    found = list(sentence_records(records))
    for sentence in found:
        check(sentence)
    assert len(found) > 8 * len(records)
    assert (sum(len(record["entities"]) for record in records)
            == sum(len(sentence["entities"]) for sentence in found))


@pytest.mark.data
def test_documents_can_be_restored_from_sentences(data: Path) -> None:
    for record in pubmed_records([str(data / "en/pubmed-xml/medline16n0902.xml.gz")]):
        rebuilt = [" "] * len(record["text"])
        for sentence in cut(record):
            start = sentence["meta"]["start"]
            rebuilt[start:start + len(sentence["text"])] = sentence["text"]
        assert "".join(rebuilt).split() == record["text"].split()
