"""What parts of a set share, and which part a file is."""

from __future__ import annotations

import pytest

from bmtools.corpus.overlap import Overlap, SetSeen, keys_of, overlaps, part_of
from bmtools.records import Record


def test_overlap() -> None:
    first = [Record(id="1", text="Il  Cuore\nbatte.", question="Che?"),
             Record(id="2", text="a", text_pair="b", meta={"document": "d"})]
    second = [Record(id="3", text="il cuore batte.", question="CHE?"), Record(id="4", text="a"),
              Record(id="5", text="A", text_pair="B"), Record(id="6", text="c", question=""),
              Record(id="7", text="e", meta={"document": "d"})]
    assert list(overlaps({"train": first, "test": second})) == [
        {"of": "test", "in": "train", "records": 5, "documents": 1, "texts": 2, "questions": 1}]


def test_records_are_compared_as_they_pass() -> None:
    known = Overlap("test.jsonl", "train.jsonl", [keys_of(Record(id="1", text="a b", question="")),
                                                  keys_of(Record(id="2", text="c"))])
    given = [Record(id="3", text="A  B"), Record(id="2", text="d"), Record(id="4", text="e")]
    assert [*SetSeen([known]).passing(given)] == given
    assert known.line() == {"of": "test.jsonl", "in": "train.jsonl", "records": 3, "documents": 1,
                            "texts": 1, "questions": 0}


@pytest.mark.parametrize(("path", "expected"), [
    ("DDI.zip/DDICorpus/Train/DrugBank/1.xml", ("train", "DDI.zip/DDICorpus/Train")),
    ("test/train.tsv", ("train", "test/train.tsv")),
    ("ner/devel.tsv.gz", ("dev", "ner/devel.tsv.gz")),
    ("NCBItrainset_corpus.txt", ("train", "NCBItrainset_corpus.txt")),
    ("CDR_DevelopmentSet.PubTator.txt", ("dev", "CDR_DevelopmentSet.PubTator.txt")),
    ("chemprot_validation_x.tsv", ("dev", "chemprot_validation_x.tsv")),
    ("Test for DDI Extraction task/2.xml", ("test", "Test for DDI Extraction task")),
    ("latest/devices-contest.txt", ("", "")), ("testosterone.ann", ("", "")), ("-", ("", ""))])
def test_parts_are_told_by_their_names(path: str, expected: tuple[str, str]) -> None:
    assert part_of(path) == expected


@pytest.mark.parametrize(("keys", "task"), [
    ({}, ""), ({"lang": "it"}, ""), ({"entities": [{"id": "a"}], "relations": []}, "ner"),
    ({"entities": [{"id": "a"}], "relations": [{"head": "a", "tail": "a"}]}, "relations"),
    ({"label": "yes", "question": "?"}, "yesno"), ({"label": "1"}, "classification"),
    ({"label": "neutral", "text_pair": "b"}, "nli"), ({"score": 0.0, "text_pair": "b"},
                                                      "similarity"),
    ({"labels": ["a"]}, "multilabel"), ({"question": "?", "answers": []}, "qa"),
    ({"target": "x"}, "mrr")])
def test_the_task_is_told_by_the_keys(keys: dict, task: str) -> None:
    seen = SetSeen()
    assert len([*seen.passing([Record(id="1", text="a", **keys)])]) == 1
    assert (seen.task, seen.parts, seen.overlaps()) == (task, {}, [])


def test_parts_that_are_mixed() -> None:
    given = [Record(id=place, text=text, entities=[], place=place) for place, text in (
        ("z/test/a.xml:3", "a"), ("z/train/b.xml:4", "A"), ("z/train/c.xml (7)", "c"),
        ("z/other.xml:1", "a"))]
    seen = SetSeen()
    assert [*seen.passing(given)] == given
    assert seen.parts == {"train": (2, "z/train"), "test": (1, "z/test")}
    assert seen.overlaps() == [{"of": "test", "in": "train", "records": 1, "documents": 0,
                                "texts": 1, "questions": 0}]


def test_plain_texts_are_no_parts() -> None:
    seen = SetSeen()
    assert len([*seen.passing(Record(id=part, text="a", place=f"{part}.txt:1")
                              for part in ("train", "test"))]) == 2
    assert (seen.parts, seen.overlaps()) == ({}, [])
