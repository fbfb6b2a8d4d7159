"""MultiClinAI's texts and table as records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.mentions import LOST, MATCHED, MOVED
from bmtools.corpus.formats.sets.multiclinai import multiclinai_records
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

TABLE = ("filename\tlabel\tstart_span\tend_span\ttext\ndoc1.txt\tDISEASE\t8\t16\tdiabetes\n"
         "doc1.txt\tSYMPTOM\t0\t5\tfever\ndoc2\tSYMPTOM\t0\t5\tfever\n")
DISTEMIST = "filename\tmark\tlabel\toff0\toff1\tspan\ndoc1\tT1\tDISEASE\t8\t16\tdiabetes\n"


@pytest.fixture
def read(tmp_path: Path):
    def call(table: str, **options: object) -> list[Record]:
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts/doc1.txt").write_text("He has  diabetes, fever.\n")
        (tmp_path / "spans.tsv").write_text(table)
        records = list(multiclinai_records([str(tmp_path / "texts")],
                                           [str(tmp_path / "spans.tsv")], **options))
        for record in records:
            check(record)
        return records

    return call


def test_a_table(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    record, = read(TABLE, counts=counts, reject=lost.append)
    assert record == {"id": "doc1", "text": "He has  diabetes, fever.\n", "entities": [
        {"start": 8, "end": 16, "type": "DISEASE", "text": "diabetes"},
        {"start": 18, "end": 23, "type": "SYMPTOM", "text": "fever"}]}
    assert +counts == {MATCHED: 1, MOVED: 1, LOST: 1}
    assert lost[0].place.endswith("spans.tsv:4")


def test_the_table_of_distemist(read) -> None:
    assert read(DISTEMIST)[0]["entities"] == read(TABLE)[0]["entities"][:1]


@pytest.mark.parametrize(("table", "message"), [
    ("a\tb\n", r"spans\.tsv:1: found the columns a, b, expected filename, label, start_span"),
    (f"{TABLE}doc1\tX\n", r"spans\.tsv:5: found 2 columns in"),
    (f"{TABLE}doc1\tX\ta\tb\tc\n", r"spans\.tsv:5: found the offsets 'a' and 'b'"),
    (f"{TABLE}doc1\t \t1\t2\tc\n", r"spans\.tsv:5: found no label")])
def test_faults_are_named(read, table: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(table)
