"""DDI-2013 as records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.brat import brat_records
from bmtools.corpus.formats.sets.ddi import ddi_records
from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST
from bmtools.corpus.formats.tally import LOST, MOVED
from bmtools.errors import RecordError
from bmtools.records import Record, check

SENTENCE = ('<document id="d">\n<sentence id="d.s0" text="{0}">\n{1}</sentence></document>\n')
ENTITY = '<entity id="{0}" charOffset="{1}" type="drug" text="{2}"/>\n'


@pytest.fixture
def read(tmp_path: Path):
    def call(text: str, *elements: str, **options: object) -> Record:
        path = tmp_path / "in.xml"
        path.write_text(SENTENCE.format(text, "".join(elements)), encoding="utf-8")
        record, = ddi_records([str(path)], **options)
        check(record)
        return record

    return call


def test_a_sentence_is_read(read) -> None:
    record = read("A with B and C.", ENTITY.format("e0", "0-0", "A"),
                  ENTITY.format("e1", "7-7", "B"), ENTITY.format("e2", "13-13", "C"),
                  '<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/>',
                  '<pair id="p1" e1="e0" e2="e2" ddi="false"/>',
                  '<pair id="p2" e1="e1" e2="e2" ddi="true"/>')
    assert record == {
        "id": "d.s0", "text": "A with B and C.", "meta": {"document": "d"},
        "entities": [{"id": f"e{number}", "start": start, "end": start + 1, "type": "drug",
                      "text": text} for number, (start, text) in enumerate(
                          [(0, "A"), (7, "B"), (13, "C")])],
        "relations": [{"head": "e0", "tail": "e1", "type": "effect"},
                      {"head": "e1", "tail": "e2", "type": "int"}]}
    assert record.place.endswith("in.xml:2")


def test_parts_are_found_even_if_shifted(read) -> None:
    counts: Counter[str] = Counter()
    record = read("of (R)- or (S)-warfarin", ENTITY.format("e0", "2-5;14-21", "(R)-warfarin"),
                  ENTITY.format("e1", "11-22", "(S)-warfarin"), counts=counts)
    shifted, whole = record["entities"]
    assert (shifted["spans"], shifted["text"]) == ([[3, 7], [15, 23]], "(R)- warfarin")
    assert (shifted["start"], shifted["end"], whole["start"]) == (3, 23, 11)
    assert counts[MOVED] == 1


def test_lost_entities_and_relations_are_counted(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    elements = (ENTITY.format("e0", "0-0", "A"), ENTITY.format("e1", "4-4", "Z"),
                '<pair id="p0" e1="e0" e2="e1" ddi="true" type="int"/>')
    record = read("A B", *elements, counts=counts, reject=lost.append)
    assert ([entity["id"] for entity in record["entities"]], record["relations"]) == (["e0"], [])
    assert (counts[LOST], counts[RELATIONS_LOST]) == (1, 1)
    assert [error.place.rpartition(":")[2] for error in lost] == ["4", "5"]
    assert "expected the ids of entities in the text" in lost[1].reason
    assert read("A B", *elements)["relations"] == []


@pytest.mark.parametrize(("element", "message"), [
    (ENTITY.format("e0", "0", "A"), r"in\.xml:3: found charOffset '0', expected FIRST-LAST"),
    ('<entity id="e0" charOffset="0-0" text="A"/>', "found <entity> without type"),
    ('<entity id="" charOffset="0-0" text="A" type="drug"/>', "found <entity> without id"),
    ('<pair e1="a" e2="b"/>', "found <pair> without ddi"),
    ('<pair e1="a" ddi="true"/>', "found <pair> without e2")])
def test_errors_are_named(read, element: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read("A B", element)


# Documents, sentences, pairs, interacting pairs.
REAL = {"Train": (714, 6976, 27792, 4021),
        "Test/Test for DDI Extraction task": (191, 1299, 5716, 979),
        "Test/Test for DrugNER task": (112, 665, 941, 0)}
TYPES = {"Train": {"effect": 1687, "mechanism": 1319, "advise": 826, "int": 189},
         "Test/Test for DDI Extraction task": {"effect": 360, "mechanism": 302, "advise": 221,
                                               "int": 96},
         "Test/Test for DrugNER task": {}}


@pytest.mark.data
@pytest.mark.parametrize("part", REAL)
def test_the_corpus_has_its_published_counts(data: Path, part: str) -> None:
    counts: Counter[str] = Counter()
    archive = data / "en/re/DDI-2013/DDICorpus-2013.zip/DDICorpus"
    records = list(ddi_records([f"{archive}/{part}"], counts=counts))
    pairs = sum(count * (count - 1) // 2 for count in (len(one["entities"]) for one in records))
    assert (counts["documents"], len(records) + counts["sentences without text left out"], pairs,
            sum(len(record["relations"]) for record in records)) == REAL[part]
    assert Counter(arc["type"] for one in records for arc in one["relations"]) == TYPES[part]
    assert counts["pairs"] == pairs
    assert (counts[LOST], counts[MOVED]) == (0, part == "Train")
    for record in records:
        check(record)
        for entity in record["entities"]:
            for start, end in entity.get("spans", ()):
                assert record["text"][start:end].strip() == record["text"][start:end]


@pytest.mark.data
def test_both_editions_of_the_corpus_agree(data: Path) -> None:
    """The corpus's authors also published the BRAT edition."""
    def found(records: list[Record]) -> tuple[Counter[tuple[str, str]], Counter[str]]:
        return (Counter((entity["text"], entity["type"].upper()) for record in records
                        for entity in record["entities"]),
                Counter(arc["type"].upper() for record in records for arc in record["relations"]))

    folder = data / "en/re/DDI-2013"
    texts = {record["id"]: record for record in brat_records([str(folder / "test-medline-brat")])}
    paths = list((folder / "test-medline-xml").glob("*.xml"))
    assert len(paths) == 33
    for path in paths:
        assert found(list(ddi_records([str(path)]))) == found([texts[path.stem]]), path.stem
