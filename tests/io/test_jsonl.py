"""Streams: compression, encodings, lines and records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from bmtools.errors import DataError, RecordError
from bmtools.io.jsonl import RecordReader, read_lines, read_list, source_stem
from bmtools.io.output import open_output, write_records

LINES = '{"id":"1","text":"è\u2028lì\u0085qui"}\n\n{"id":"2","text":"β"}\n'.encode()
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "gzip": gzip.compress,
    "gzip in two members": lambda c: gzip.compress(c[:9]) + gzip.compress(c[9:]),
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd in two frames": lambda c: b"".join(
        zstandard.ZstdCompressor().compress(part) for part in (c[:9], c[9:])),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no BOM", "BOM"])
def test_compression_is_detected_by_content(tmp_path: Path, packing: str, mark: bytes) -> None:
    path = tmp_path / "name.that.says.nothing"
    path.write_bytes(PACKED[packing](mark + LINES))
    records = RecordReader([str(path)])
    assert [record["text"] for record in records] == ["è\u2028lì\u0085qui", "β"]
    assert len(records.hashes[str(path)]) == 64


def test_lines_end_at_newline_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("a\u2028b\u0085c\x0bd\re\nlast".encode())
    assert list(read_lines(str(path))) == [(1, "a\u2028b\u0085c\x0bd\re"), (2, "last")]


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    assert [record.place for record in RecordReader([str(path)])] == [f"{path}:1", f"{path}:3"]


@pytest.mark.parametrize(("line", "reason"), [
    (b'{"id":"1","text":', "expected a JSON object on one line"),
    (b"[1]", "found another JSON value, expected a JSON object on one line"),
    (b'{"id":"1","text":"\xe8"}', "byte 19 is not UTF-8"),
    (b'{"id":"1"}', "key 'text' is missing"),
])
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES + line + b"\n")
    with pytest.raises(RecordError) as caught:
        list(RecordReader([str(path)]))
    assert str(caught.value).startswith(f"{path}:4: ")
    assert reason in str(caught.value)


def test_rejected_lines_do_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"not json\n" + LINES + b'{"id":3,"text":"x"}\n')
    rejected: list[RecordError] = []
    kept = [record["id"] for record in RecordReader([str(path)], rejected.append)]
    assert kept == ["1", "2"]
    assert [(error.place, error.content) for error in rejected] == [
        (f"{path}:1", "not json"), (f"{path}:5", {"id": 3, "text": "x"})]


def test_joined_files_may_each_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(2 * (b"\xef\xbb\xbf" + LINES))
    assert [record["id"] for record in RecordReader([str(path)])] == ["1", "2"] * 2


def test_damaged_compression_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(LINES * 100)[:-20])
    with pytest.raises(DataError, match="damaged compressed data"):
        list(RecordReader([str(path)]))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl: no such file"):
        list(RecordReader([str(tmp_path / "absent.jsonl")]))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_records_survive_a_round_trip(tmp_path: Path, name: str) -> None:
    records = [{"id": "1", "text": "perché\u2028no", "z": [1, {"y": None}]}]
    path = tmp_path / name
    assert write_records(records, str(path)) == 1
    assert list(RecordReader([str(path)])) == records


def test_a_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("old")
    with pytest.raises(RuntimeError), open_output(str(path)) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_lines_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_records([{"id": "1", "text": 'a"\\\n'}], str(path))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"id": "1", "text": 'a"\\\n'}]


def test_a_list_has_its_lines_numbered(tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_bytes(b"\xef\xbb\xbf one \n\ntwo words\r\n")
    assert read_list(str(path)) == [(1, "one"), (3, "two words")]
    path.write_bytes(b"\n  \n")
    with pytest.raises(DataError, match="found no drugs, expected one a line"):
        read_list(str(path), "drugs")


@pytest.mark.parametrize(("name", "expected"), [
    ("-", "stdin"), ("ner/test.tsv", "test"), ("test.tsv.gz", "test"), ("a.b.txt.zst", "a.b"),
    ("notes", "notes"), ("notes.gz", "notes")])
def test_the_stem_of_a_source_has_no_endings(name: str, expected: str) -> None:
    assert source_stem(name) == expected
