"""Parquet files as written by pyarrow and datasets."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from bmtools.corpus.formats.texts.arrow import parquet_records
from bmtools.errors import DataError, RecordError

FEATURES = {"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}


def table(rows: int = 3, start: int = 0) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table({
        "pmid": pa.array(numbers), "text": [f"Text {number}." for number in numbers],
        "label": [number % 2 for number in numbers],
        "dates": [[datetime.date(2020, 1, 2)] for _ in numbers],
        "price": [Decimal("1.50") for _ in numbers], "image": [{"bytes": b"\xff"} for _ in numbers],
    }).replace_schema_metadata({"huggingface": json.dumps(FEATURES)})


def row(number: int) -> dict[str, Any]:
    return {"id": str(number), "text": f"Text {number}.", "label": ("no", "yes")[number % 2],
            "dates": ["2020-01-02"], "price": "1.50"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(name: str = "a.parquet", **numbers: int) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table(**numbers), path)
        return str(path)

    return write


def test_parquet_is_read(write, tmp_path) -> None:
    counts: Counter[str] = Counter()
    records = list(parquet_records([write(rows=2500)], "id=pmid", counts=counts))
    assert records == [row(number) for number in range(2500)]
    assert records[2].place.endswith("a.parquet:3")
    assert counts == {"columns of bytes left out": 1}
    first, *_ = parquet_records([str(tmp_path)], columns="text=price", counts=counts)
    assert first["id"] == "a:1"


def test_parquet_is_read_from_an_archive_and_stdin(write, tmp_path, monkeypatch) -> None:
    import io
    import tarfile

    path = write()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(path, "in/a.parquet")
    expected = [row(number) for number in range(3)]
    assert list(parquet_records([f"{tmp_path}/a.tar.gz"], "id=pmid")) == expected
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(Path(path).read_bytes())))
    monkeypatch.setattr("sys.stdin", stream)
    assert list(parquet_records(["-"], "id=pmid")) == expected


def test_a_row_without_text_is_rejected(tmp_path) -> None:
    parquet.write_table(pa.table({"id": ["a", "b"], "text": ["x", None]}), tmp_path / "a.parquet")
    rejected: list[RecordError] = []
    records = parquet_records([f"{tmp_path}/a.parquet"], reject=rejected.append)
    assert [record["id"] for record in records] == ["a"]
    assert "a.parquet:2: key 'text': found None, expected text" in str(rejected[0])


def test_damaged_files_are_a_one_line_error(write, tmp_path) -> None:
    path = Path(write())
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[:-9], whole[:100], b"plain text\n" * 9):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet: this file cannot be read"):
            list(parquet_records([str(path)]))
    path.write_bytes(whole)
    with pytest.raises(DataError, match="found no column 'txet', did you mean 'text'"):
        list(parquet_records([str(path)], columns="text=txet"))
    with pytest.raises(DataError, match="found no column 'image'"):
        list(parquet_records([str(path)], columns="text=image"))


def test_nan_and_infinite_numbers_are_left_out(tmp_path) -> None:
    parquet.write_table(pa.table({
        "id": ["a", "b"], "text": ["x", "y"], "score": [float("nan"), 2.0],
        "meta": [{"age": float("inf")}, {"age": 3.0}]}), tmp_path / "a.parquet")
    counts: Counter[str] = Counter()
    assert list(parquet_records([f"{tmp_path}/a.parquet"], counts=counts)) == [
        {"id": "a", "text": "x", "meta": {"age": None}},
        {"id": "b", "text": "y", "score": 2.0, "meta": {"age": 3.0}}]
    assert +counts == {"NaN or infinite numbers left out": 2}


def test_texts_in_bytes_columns_are_utf8(tmp_path) -> None:
    """Spark and Hive write texts in this way, without marking them as text."""
    parquet.write_table(pa.table({
        "number": [b"a", b"b"], "note": ["perché".encode(), b"caf\xe9"], "title": [b"t", None],
        "image": [b"\xff", b""]}), tmp_path / "a.parquet")
    counts: Counter[str] = Counter()
    rejected: list[RecordError] = []
    assert list(parquet_records([f"{tmp_path}/a.parquet"], "id=number,text=note", counts=counts,
                                reject=rejected.append)) == [
        {"id": "a", "text": "perché", "title": "t"}]
    assert +counts == {"columns of bytes left out": 1}
    assert "a.parquet:2: found bytes that are not UTF-8" in str(rejected[0])


def test_an_unlabelled_text_has_no_label(tmp_path) -> None:
    """Test parts on the Hugging Face Hub have -1; other numbers without a class are kept."""
    table = pa.table({"id": ["a", "b"], "text": ["x", "y"], "label": [1, -1], "score": [-1, 0]})
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(FEATURES)}),
                        tmp_path / "a.parquet")
    counts: Counter[str] = Counter()
    records = [*parquet_records([f"{tmp_path}/a.parquet"], counts=counts)]
    assert records == [{"id": "a", "text": "x", "label": "yes", "score": -1},
                       {"id": "b", "text": "y", "score": 0}]
    assert +counts == {"classes -1 (unlabelled) left out": 1}


NAMES = {"names": ["O", "B-Disease", "I-Disease"], "_type": "ClassLabel"}


@pytest.mark.parametrize("feature", [{"feature": NAMES, "_type": "List"}, [NAMES],
                                     {"feature": NAMES, "_type": "Sequence"}])
def test_tokens_and_tags_become_text_and_entities(tmp_path, feature: object) -> None:
    """Three releases of datasets write entity sets of the Hugging Face Hub in different ways."""
    table = pa.table({"id": ["0", "1", "2"], "ner_tags": [[0, 1, 2], [1], [1, 1]],
                      "tokens": [["No", "renal", "failure"], ["x", "y"], ["Flu", "asthma"]]})
    features = {"info": {"features": {"ner_tags": feature, "tokens": [{"dtype": "string"}]}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}),
                        tmp_path / "a.parquet")
    rejected: list[RecordError] = []
    records = list(parquet_records([f"{tmp_path}/a.parquet"], reject=rejected.append))
    assert records == [
        {"id": "0", "text": "No renal failure", "entities": [
            {"start": 3, "end": 16, "type": "Disease", "text": "renal failure"}]},
        {"id": "2", "text": "Flu asthma", "entities": [
            {"start": 0, "end": 3, "type": "Disease", "text": "Flu"},
            {"start": 4, "end": 10, "type": "Disease", "text": "asthma"}]}]
    assert "a.parquet:2: found ['x', 'y'] with ner_tags ['B-Disease']" in str(rejected[0])
    parquet.write_table(table.select(["tokens"]), tmp_path / "a.parquet")
    records = list(parquet_records([f"{tmp_path}/a.parquet"], "text=tokens"))
    assert records[0] == {"id": "a:1", "text": "No renal failure"}
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(RecordError, match="expected a tag for each token, O or B-TYPE"):
        list(parquet_records([f"{tmp_path}/a.parquet"]))
