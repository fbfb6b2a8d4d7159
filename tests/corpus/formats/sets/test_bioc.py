"""BioC's XML and JSON as records."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.bioc import bioc_json_records, bioc_records
from bmtools.corpus.formats.sets.mentions import LOST, MATCHED, RELATIONS_LOST
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

# As BC5CDR is published: relations of concepts, whose ids are infons of their own.
BC5CDR = """<?xml version="1.0"?><collection><source/><document><id>227508</id>
<passage><infon key="type">title</infon><offset>0</offset><text>Naloxone and clonidine.</text>
<annotation id="0"><infon key="type">Chemical</infon><infon key="MESH">D009270</infon>
<location offset="0" length="8"/><text>Naloxone</text></annotation></passage>
<passage><infon key="type">abstract</infon>
<offset>24</offset><text>It caused lung and breast cancer.
</text><annotation id="1"><infon key="type">Disease</infon><infon key="MESH">D001943</infon>
<infon key="CompositeRole">IndividualMention</infon>
<location offset="34" length="4"/><location offset="50" length="6"/><text>lung cancer</text>
</annotation></passage>
<relation id="R0"><infon key="relation">CID</infon><infon key="Chemical">D009270</infon>
<infon key="Disease">D001943</infon></relation></document></collection>
"""
# As BioRED is published, in JSON, and relations between annotations, as in PPI sets.
BIORED = {"documents": [{"id": 1, "passages": [
    {"offset": 0, "text": "A in B.", "infons": {"type": "title"}, "annotations": [
        {"id": "0", "text": "A", "infons": {"type": "Gene", "identifier": "2,3"},
         "locations": [{"offset": 0, "length": 1}]}]},
    {"offset": 8, "infons": {}, "sentences": [{"offset": 8, "text": "So B."}], "annotations": [
        {"id": "1", "text": "B", "infons": {"type": "Disease", "identifier": "D1"},
         "locations": [{"offset": 11, "length": 1}]}]}],
    "relations": [
        {"id": "R0", "infons": {"entity1": "2", "entity2": "D1", "type": "Bind", "novel": "No"}},
        {"id": "R1", "infons": {"type": "PPI"}, "nodes": [
            {"refid": "0", "role": "a"}, {"refid": "1", "role": "b"}]}]}]}


def read(path: Path, content: str, **options: object) -> list[Record]:
    path.write_text(content, encoding="utf-8")
    reader = bioc_json_records if path.suffix == ".json" else bioc_records
    records = list(reader([str(path)], **options))
    for record in records:
        check(record)
    return records


def test_concepts_in_infons_and_parts(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    record, = read(tmp_path / "in.xml", BC5CDR, counts=counts)
    assert record["id"] == "227508"
    assert record["text"].startswith("Naloxone and clonidine. It caused lung")
    assert record["entities"][1] == {
        "id": "1", "start": 34, "end": 56, "type": "Disease", "text": "lung cancer",
        "identifier": "D001943", "infons": {"CompositeRole": "IndividualMention"},
        "spans": [[34, 38], [50, 56]]}
    assert record["relations"] == [{"head": "0", "tail": "1", "type": "CID",
                                    "concepts": ["D009270", "D001943"]}]
    assert record["meta"]["sections"][0] == {"label": "title", "start": 0, "end": 23}
    assert +counts == {MATCHED: 2}


def test_sentences_and_both_kinds_of_relations(tmp_path: Path) -> None:
    record, = read(tmp_path / "in.json", json.dumps(BIORED))
    assert (record["id"], record["text"]) == ("1", "A in B. So B.")
    assert [(one["start"], one["text"]) for one in record["entities"]] == [(0, "A"), (11, "B")]
    assert record["relations"] == [
        {"head": "0", "tail": "1", "type": "PPI"},
        {"head": "0", "tail": "1", "type": "Bind", "novelty": "No", "concepts": ["2", "D1"]}]


@pytest.mark.parametrize("wrap", [lambda found: found["documents"][0],
                                  lambda found: {"PubTator3": found["documents"]}])
def test_further_forms_of_json(tmp_path: Path, wrap) -> None:
    expected = read(tmp_path / "in.json", json.dumps(BIORED))
    assert read(tmp_path / "in.json", json.dumps(wrap(BIORED))) == expected


def test_passages_whose_offsets_leave_a_gap(tmp_path: Path) -> None:
    moved = BC5CDR.replace("<offset>24<", "<offset>124<").replace(
        'offset="34"', 'offset="134"').replace('offset="50"', 'offset="150"')
    assert read(tmp_path / "in.xml", moved) == read(tmp_path / "in.xml", BC5CDR)


def test_what_is_lost(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    content = BC5CDR.replace('offset="0"', 'offset="900"').replace(
        "<text>Naloxone</text>", "<text>Zinc</text>").replace(
            "</relation>", '</relation><relation id="R1"/>')
    record, = read(tmp_path / "in.xml", content, counts=counts, reject=lost.append)
    assert (len(record["entities"]), record["relations"]) == (1, [])
    assert (counts[LOST], counts[RELATIONS_LOST]) == (1, 2)
    assert "in.xml:1: found a relation without two nodes" in " ".join(map(str, lost))


@pytest.mark.parametrize(("name", "content", "message"), [
    ("in.xml", BC5CDR.replace("<offset>0<", "<offset>x<"),
     r"in\.xml:1: key 'passages\[0\]\.offset': found text"),
    ("in.xml", BC5CDR.replace("<id>227508</id>", ""), "key 'id' is missing"),
    ("in.xml", "<html/>", "found the root element <html>, expected <collection>"),
    ("in.json", "[]", r"in\.json: found neither documents nor passages"),
    ("in.json", '{"documents": [1]}', r"in\.json \(documents\[0\]\): found 1, expected")])
def test_faults_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / name, content)
