"""What parts of a set share, and which part a file is."""

from __future__ import annotations

from bmtools.corpus.overlap import overlaps
from bmtools.records import Record


def test_overlap() -> None:
    first = [Record(id="1", text="Il  Cuore\nbatte.", question="Che?"),
             Record(id="2", text="a", text_pair="b", meta={"document": "d"})]
    second = [Record(id="3", text="il cuore batte.", question="CHE?"), Record(id="4", text="a"),
              Record(id="5", text="A", text_pair="B"), Record(id="6", text="c", question=""),
              Record(id="7", text="e", meta={"document": "d"})]
    assert list(overlaps({"train": first, "test": second})) == [
        {"of": "test", "in": "train", "records": 5, "documents": 1, "texts": 2, "questions": 1}]
