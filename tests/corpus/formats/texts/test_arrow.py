"""Parquet files and datasets on disk, as pyarrow and datasets write them."""

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
from pyarrow import ipc, parquet

from bmtools.corpus.formats.texts.arrow import dataset_records, parquet_records
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
        if path.suffix == ".parquet":
            parquet.write_table(table(**numbers), path)
            return str(path)
        content = table(**numbers)
        with ipc.new_stream(str(path), content.schema) as stream:
            stream.write_table(content, max_chunksize=2)
        return str(path)

    return write


def test_parquet(write, tmp_path) -> None:
    counts: Counter[str] = Counter()
    records = list(parquet_records([write(rows=2500)], "pmid", counts=counts))
    assert records == [row(number) for number in range(2500)]
    assert records[2].place.endswith("a.parquet:3")
    assert counts == {"columns of bytes left out": 1}
    first, *_ = parquet_records([str(tmp_path)], text_key="price", counts=counts)
    assert first["id"] == "a:1"


def test_parquet_in_an_archive_and_from_stdin(write, tmp_path, monkeypatch) -> None:
    import io
    import tarfile

    path = write()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(path, "in/a.parquet")
    expected = [row(number) for number in range(3)]
    assert list(parquet_records([f"{tmp_path}/a.tar.gz"], "pmid")) == expected
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(Path(path).read_bytes())))
    monkeypatch.setattr("sys.stdin", stream)
    assert list(parquet_records(["-"], "pmid")) == expected


def test_a_row_without_text_is_rejected(tmp_path) -> None:
    parquet.write_table(pa.table({"id": ["a", "b"], "text": ["x", None]}), tmp_path / "a.parquet")
    rejected: list[RecordError] = []
    records = parquet_records([f"{tmp_path}/a.parquet"], reject=rejected.append)
    assert [record["id"] for record in records] == ["a"]
    assert "a.parquet:2: key 'text': found None, expected text" in str(rejected[0])


def test_what_save_to_disk_writes(write, tmp_path) -> None:
    for split, start in (("train", 0), ("test", 10)):
        for shard in range(2):
            write(f"{split}/data-{shard:05}-of-00002.arrow", start=start + 3 * shard)
        (tmp_path / split / "state.json").write_text(json.dumps({
            "_split": split, "_data_files": [{"filename": f"data-{shard:05}-of-00002.arrow"}
                                             for shard in range(2)]}))
        write(f"{split}/cache-1.arrow")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    records = list(dataset_records([str(tmp_path)], id_key="pmid"))
    assert records == [{**row(number), "meta": {"split": split}} for split, numbers in (
        ("train", range(6)), ("test", range(10, 16))) for number in numbers]
    counts: Counter[str] = Counter()
    test = list(dataset_records([str(tmp_path)], ["test"], counts=counts))
    assert [record["id"] for record in test] == [f"test:{number}" for number in range(1, 7)]
    assert counts["files of the split train left out"] == 2
    assert len(list(dataset_records([f"{tmp_path}/train"], id_key="pmid"))) == 6


def test_a_folder_of_the_hub(write, tmp_path) -> None:
    for split, start in (("train", 0), ("validation", 10)):
        write(f"data/{split}-00000-of-00001.parquet", start=start)
    (tmp_path / "script.py").write_text("raise AssertionError('it was run')")
    records = list(dataset_records([str(tmp_path)], ["validation"], "pmid"))
    assert records == [{**row(number), "meta": {"split": "validation"}} for number in (10, 11, 12)]


@pytest.mark.parametrize(("name", "content", "told"), [
    ("dataset_dict.json", '{"splits": ["../x"]}', "found the name '../x' in its description"),
    ("dataset_dict.json", '{"splits": [".."]}', r"found the name '\.\.' in its description"),
    ("state.json", '{"_data_files": [{"filename": "/etc/passwd"}]}', "found the name '/etc/pas"),
    ("state.json", '{"_data_files": [1]}', "found the name 'False' in its description"),
    ("dataset_dict.json", '{"splits": 1}', "key 'splits': found 1, expected a list"),
    ("other.json", "{}", "found no dataset_dict.json, state.json or Parquet files")])
def test_no_dataset(tmp_path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        list(dataset_records([str(tmp_path)]))


def test_damage_is_one_line(write, tmp_path) -> None:
    path = Path(write())
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[:-9], whole[:100], b"plain text\n" * 9):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet: this file cannot be read"):
            list(parquet_records([str(path)]))
    path.write_bytes(whole)
    with pytest.raises(DataError, match="found no column 'txet', did you mean 'text'"):
        list(parquet_records([str(path)], text_key="txet"))
    with pytest.raises(DataError, match="found no column 'image'"):
        list(parquet_records([str(path)], text_key="image"))
