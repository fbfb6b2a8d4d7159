"""ChemProt and BioRED, as published by their authors and BioBIT."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.chemprot import biored_records, chemprot_records
from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST
from bmtools.corpus.formats.sets.standoff import known_type
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

ABSTRACT = "1\tOn DF.\tDF blocks sigma-1.\n"
ENTITIES = ("1\tT1\tCHEMICAL\t3\t5\tDF\n1\tT2\tCHEMICAL\t7\t9\tDF\n"
            "1\tT3\tGENE-Y\t17\t24\tsigma-1\n")
RELATIONS = "1\tCPR:4\tY \tINHIBITOR\tArg1:T2\tArg2:T3\n"
ITALIAN = json.dumps({"data": [{"PMID": "1", "Testo": "On DF. DF blocks sigma-1."}]})
CONCEPTS = ("1\t3\t5\tDF\tCHEMICALENTITY\tD1\n1\t9\t11\tDF\tCHEMICALENTITY\tD1,D2\n"
            "1\t17\t24\tsigma-1\tGENEORGENEPRODUCT\tC|SUB|G |1|A\n")
RELATED = "1\tAssociation\tD1\tc|SUB|G|1|A\tNovel\n"


@pytest.fixture
def read(tmp_path: Path):
    def call(reader, texts: str, entities: str, relations: str, *more: object,
             **options: object) -> list[Record]:
        names = []
        for name, content in (("texts", texts), ("ann", entities), ("rel", relations)):
            (tmp_path / name).write_text(content, encoding="utf-8")
            names.append([str(tmp_path / name)])
        records = list(reader(*names, *more, **options))
        for record in records:
            check(record)
        return records

    return call


def test_an_abstract_is_read(read) -> None:
    record, = read(chemprot_records, ABSTRACT, ENTITIES, RELATIONS)
    assert record["text"] == "On DF. DF blocks sigma-1."
    assert [(entity["id"], entity["start"], entity["type"]) for entity in record["entities"]] == [
        ("T1", 3, "CHEMICAL"), ("T2", 7, "CHEMICAL"), ("T3", 17, "GENE-Y")]
    assert record["relations"] == [{"head": "T2", "tail": "T3", "type": "CPR:4",
                                    "label": "INHIBITOR"}]
    assert [(part["start"], part["end"]) for part in record["meta"]["sections"]] == [
        (0, 6), (7, 25)]
    record, = read(chemprot_records, ABSTRACT, ENTITIES, RELATIONS, "merge", "label")
    assert record["entities"][2]["type"] == "GENE"
    assert record["relations"][0]["type"] == "INHIBITOR"
    assert record["relations"][0]["group"] == "CPR:4"


def test_repeated_lines_are_used_once_and_counted(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    once, = read(chemprot_records, ABSTRACT, ENTITIES, RELATIONS)
    twice, = read(chemprot_records, ABSTRACT, ENTITIES * 2, RELATIONS * 3, counts=counts,
                  reject=lost.append)
    assert twice == once
    assert counts["repeated annotations left out"] == 3
    assert counts["repeated relations left out"] == 2
    assert not lost  # nothing is lost


def test_biobit_layout_is_recognised_by_content(read) -> None:
    counts: Counter[str] = Counter()
    record, = read(chemprot_records, ITALIAN,
                   "1\tT1\t5\t7\tDF\tCHEMIC AL\n1\tT3\t30\t37\tSigma-1\tGENE- Livelli di Y\n",
                   RELATIONS.replace("T2", "T1"), counts=counts)
    assert [(entity["start"], entity["text"], entity["type"]) for entity in record["entities"]] == [
        (3, "DF", "CHEMICAL"), (17, "sigma-1", "GENE-Y")]
    assert (counts[MOVED], counts["damaged type names corrected"]) == (2, 2)


def test_annotations_of_missing_entities_and_documents_are_lost(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    record, = read(chemprot_records, ABSTRACT, f"{ENTITIES}2\tT1\tCHEMICAL\t0\t1\tx\n",
                   f"{RELATIONS.replace('T3', 'T9')}2\tCPR:4\tY\tINHIBITOR\tArg1:T1\tArg2:T2\n",
                   counts=counts, reject=lost.append)
    assert record["relations"] == []
    assert (counts[LOST], counts[RELATIONS_LOST]) == (1, 2)
    assert [(error.place.rpartition("/")[2], error.reason) for error in lost] == [
        ("rel:1", "found a relation of 'T9', expected the ids of entities in the text"),
        ("ann:4", "found the document '2', which no file of texts contains"),
        ("rel:2", "found the document '2', which no file of texts contains")]


@pytest.mark.parametrize(("texts", "entities", "relations", "message"), [
    ("1\tx\n", "", "", r"texts:1: found 2 columns in '1\\tx', expected 3 separated by tabs"),
    ("\tx\ty\n", "", "", "texts:1: found no PMID"),
    ("{]", "", "", r"texts:1: not JSON \(.*\); expected an object with 'data'"),
    ("{}", "", "", "texts: found no list under 'data'"),
    ('{"data": [{"PMID": 1}]}', "", "", r"texts \(data\[0\]\): key 'PMID': found a"),
    (ABSTRACT, "1\tT1\tCHEMICAL\t3\tx\tDF\n", "", "ann:1: found the offsets '3' and 'x'"),
    (ABSTRACT, "1\t\tCHEMICAL\t3\t5\tDF\n", "", "ann:1: found no id in the second column"),
    (ABSTRACT, "1\tT1\tDRUG\t3\t5\tDF\n", "", "ann:1: found the type 'DRUG', expected CHEMICAL"),
    (ABSTRACT, "", "1\tCPR:4\tY\tINHIBITOR\tT1\tT2\n", "rel:1: found 'T1' and 'T2', expected Arg1"),
])
def test_bad_lines_are_reported(read, texts: str, entities: str, relations: str,
                                message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(chemprot_records, texts, entities, relations)


@pytest.mark.parametrize(("name", "kind"), [
    ("GENE -Y", "GENE-Y"), ("GENE- Recettori N", "GENE-N"), ("GENE-", "GENE"),
    ("CHEMICALL", "CHEMICAL"), ("CHE Il metabolismo di MICAL", "CHEMICAL"),
    ("CHEMICAL AL", "CHEMICAL"), ("CHEMCAL", "CHEMICAL"),
    ("GENE", "GENE"), ("DRUG", None), ("", None)])
def test_damaged_types_are_corrected(name: str, kind: str | None) -> None:
    counts: Counter[str] = Counter()
    arguments = name, ("CHEMICAL", "GENE", "GENE-Y", "GENE-N"), counts, "a:1", ""
    if kind is None:
        with pytest.raises(RecordError, match="a:1: found the type"):
            known_type(*arguments)
    else:
        assert known_type(*arguments) == kind
        assert counts["damaged type names corrected"] == (name != kind)


def test_markers_become_entities(tmp_path: Path) -> None:
    (tmp_path / "in").write_text('{"text": "On [[x]: << DF >> ([[ sigma-1 ]]) >> a.", '
                                 '"label": "INHIBITOR", "metadata": []}\n\n')
    record, = chemprot_records([str(tmp_path / "in")])
    check(record)
    assert record == {
        "id": "in:1", "text": "On [[x]: DF (sigma-1) >> a.",
        "entities": [{"id": "a", "start": 9, "end": 11, "type": "ENTITY", "text": "DF"},
                     {"id": "b", "start": 13, "end": 20, "type": "ENTITY", "text": "sigma-1"}],
        "relations": [{"head": "a", "tail": "b", "type": "INHIBITOR"}]}
    (tmp_path / "in").write_text(json.dumps({"text": "<< a >> " * 20_000, "label": "x"}))
    with pytest.raises(RecordError, match="found no text with << a >> before"):  # must be fast
        list(chemprot_records([str(tmp_path / "in")]))


@pytest.mark.parametrize("pairs", ["closest", "biobit", "all"])
def test_concepts_ignore_case_and_biobit_needs_the_head_first(read, pairs: str) -> None:
    record, = read(biored_records, ITALIAN, CONCEPTS, RELATED, pairs)
    assert [(arc["head"], arc["tail"]) for arc in record["relations"]] == [
        ("T1", "T3"), ("T2", "T3")]
    assert record["relations"][0] == {"head": "T1", "tail": "T3", "type": "Association",
                                      "novelty": "Novel", "concepts": ["D1", "c|SUB|G|1|A"]}
    lost: list[RecordError] = []
    record, = read(biored_records, ITALIAN, CONCEPTS, RELATED.replace(
        "D1\tc|SUB|G|1|A", "c|SUB|G|1|A\tD2"), pairs, reject=lost.append)
    assert [(arc["head"], arc["tail"]) for arc in record["relations"]] == [
        ("T3", "T2")] * (pairs != "biobit")
    assert [error.reason for error in lost] == [
        "found a relation of 'c|SUB|G|1|A' and 'D2', whose mentions do not make a pair in the "
        "text"] * (pairs == "biobit")


def test_each_mention_is_paired_with_the_closest_of_the_other_concept(read) -> None:
    text = json.dumps({"data": [{"PMID": "1", "Testo": "a b a ........ a b"}]})
    places = ((0, "a"), (2, "b"), (4, "a"), (15, "a"), (17, "b"))
    lines = "".join(f"1\t{start}\t{start + 1}\t{word}\tCHEMICALENTITY\t{word}\n"
                    for start, word in places)
    related = "1\tBind\ta\tb\tNo\n"
    record, = read(biored_records, text, lines, related)
    assert [(arc["head"], arc["tail"]) for arc in record["relations"]] == [
        ("T1", "T2"), ("T3", "T2"), ("T4", "T5")]
    record, = read(biored_records, text, lines, related, "biobit")
    assert [(arc["head"], arc["tail"]) for arc in record["relations"]] == [
        ("T1", "T2"), ("T3", "T5"), ("T4", "T5")]
    record, = read(biored_records, text, lines, related, "all")
    assert len(record["relations"]) == 6


# Documents, annotations at their offset, moved and lost, and relations found and lost.
CHEMPROT = {"train": (1018, 2360, 23198, 9, 6341, 96), "dev": (612, 1407, 14099, 7, 3509, 49),
            "test": (797, 1808, 18690, 16, 5597, 147)}
# A relation of concepts may become several relations of mentions, so concepts are counted.
BIORED = {"train": (392, 11, 12552, 7, 3894, 284), "dev": (98, 0, 3311, 1, 1064, 98),
          "test": (95, 4, 3083, 1, 979, 184)}


def totals(records: list[Record], counts: Counter[str], relations: int) -> tuple[int, ...]:
    return (len(records), counts[MATCHED], counts[MOVED], counts[LOST], relations,
            counts[RELATIONS_LOST])


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_numbers_of_the_italian_sets(data: Path, part: str) -> None:
    def read(name: str, reader) -> tuple[list[Record], Counter[str]]:
        counts: Counter[str] = Counter()
        names = [[str(data / "it/re" / name / f"{part}_{what}")]
                 for what in ("CORPUS.json", "ANN.txt", "REL.txt")]
        records = list(reader(*names, counts=counts))
        for record in records:
            check(record)
        return records, counts

    records, counts = read("CHEMPROT", chemprot_records)
    relations = sum(len(record["relations"]) for record in records)
    assert totals(records, counts, relations) == CHEMPROT[part]
    assert {entity["type"] for record in records for entity in record["entities"]} <= {
        "CHEMICAL", "GENE-Y", "GENE-N", "GENE"}
    records, counts = read("BIORED", biored_records)
    lines = {(record["id"], arc["type"], *arc["concepts"], arc["novelty"])
             for record in records for arc in record["relations"]}
    assert totals(records, counts, len(lines)) == BIORED[part]


@pytest.mark.data
def test_numbers_of_the_biocreative_files(data: Path) -> None:
    where = data / "en/re/chemprot-official"
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    names = ([str(where / f"chemprot_development_{what}.tsv")]
             for what in ("abstracts", "entities", "relations"))
    records = list(chemprot_records(*names, counts=counts, reject=lost.append))
    relations = sum(len(record["relations"]) for record in records)
    assert totals(records, counts, relations) == (612, 2000, 0, 0, 475, 1525)
    assert len(lost) == 1525


@pytest.mark.data
def test_numbers_of_the_scibert_files(data: Path) -> None:
    found = {}
    for part in ("train", "dev", "test"):
        records = list(chemprot_records([str(data / f"en/re/chemprot/{part}.txt")]))
        for record in records:
            check(record)
        labels = {arc["type"] for record in records for arc in record["relations"]}
        found[part] = len(records), len(labels)
    assert found == {"train": (4169, 13), "dev": (2427, 12), "test": (3469, 12)}
