"""What parts of a set share, and which part a file is."""

from __future__ import annotations

import pytest

from bmtools.corpus.overlap import overlaps, part_of
from bmtools.records import Record


def test_overlap() -> None:
    first = [Record(id="1", text="Il  Cuore\nbatte.", question="Che?"),
             Record(id="2", text="a", text_pair="b", meta={"document": "d"})]
    second = [Record(id="3", text="il cuore batte.", question="CHE?"), Record(id="4", text="a"),
              Record(id="5", text="A", text_pair="B"), Record(id="6", text="c", question=""),
              Record(id="7", text="e", meta={"document": "d"})]
    assert list(overlaps({"train": first, "test": second})) == [
        {"of": "test", "in": "train", "records": 5, "documents": 1, "texts": 2, "questions": 1}]


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
