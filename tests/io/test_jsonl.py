"""Streams: compression, encodings, lines and records."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from backports import zstd

from bmtools.errors import DataError, RecordError
from bmtools.io.jsonl import RecordReader, read_objects
from bmtools.io.output import write_records
from bmtools.io.parts import read_blocks
from bmtools.io.sources import open_bytes, read_lines, read_list, source_stem

LINES = '{"id":"1","text":"è\u2028lì\u0085qui"}\n\n{"id":"2","text":"β"}\n'.encode()
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "gzip": gzip.compress,
    "gzip in two members": lambda c: gzip.compress(c[:9]) + gzip.compress(c[9:]),
    "zstd": zstd.compress,
    "zstd in two frames": lambda c: b"".join(
        zstd.compress(part) for part in (c[:9], c[9:])),
    "zstd between skippable frames": lambda c: b"".join(
        byte + b"\x2a\x4d\x18\x02\0\0\0\xff\0" + zstd.compress(part)
        for byte, part in ((b"\x50", c[:9]), (b"\x5f", c[9:]), (b"\x5a", b""))),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no BOM", "BOM"])
def test_compression_is_detected_by_content(tmp_path: Path, packing: str, mark: bytes) -> None:
    path = tmp_path / "name.that.says.nothing"
    path.write_bytes(PACKED[packing](mark + LINES))
    records = RecordReader([str(path)])
    assert [record["text"] for record in records] == ["è\u2028lì\u0085qui", "β"]
    assert len(records.hashes[str(path)]) == 64


def test_only_lf_cr_and_crlf_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for content in ("a\u2028b\u0085c\x0bd\ne\n\nlast", "a\u2028b\u0085c\x0bd\re\r\rlast\r",
                    "a\u2028b\u0085c\x0bd\re\r\n\r\nlast", "a\u2028b\u0085c\x0bd\r\r\ne\n\nlast"):
        path.write_bytes(content.encode())
        assert list(read_lines(str(path))) == [
            (1, "a\u2028b\u0085c\x0bd"), (2, "e"), (3, ""), (4, "last")]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_records_are_read_with_any_end_of_line(tmp_path: Path, end: str) -> None:
    """In a JSON string, CR is escaped, but U+2028 may occur unescaped."""
    path = tmp_path / "a.jsonl"
    lines = ['{"id":"1","text":"a\\rb\u2028c"}', "", '{"id":"2","text":"d"}']
    path.write_bytes(end.join([*lines, ""]).encode())
    assert [(record["text"], record.place) for record in RecordReader([str(path)])] == [
        ("a\rb\u2028c", f"{path}:1"), ("d", f"{path}:3")]
    assert [content["id"] for _, content in read_objects(str(path))] == ["1", "2"]
    blocks = list(read_blocks(reader := RecordReader([str(path)])))
    assert [block.lines.count(b"\n") for block in blocks] == [3]
    other = RecordReader([str(path)])
    list(other)
    assert other.hashes == reader.hashes


def test_every_cut_of_the_last_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    last = '{"id":"é","text":"a\\u00e8","score":-1.5e3,"meta":{"a":[true,null,2]}}'.encode()
    for length in range(1, len(last)):
        path.write_bytes(LINES + last[:length])
        with pytest.raises(DataError, match=r"4: the last line is cut off, after ") as caught:
            list(RecordReader([str(path)], lambda error: None))
        assert not isinstance(caught.value, RecordError)
    for whole in (last, b""):  # complete lines do not show that lines are missing
        path.write_bytes(LINES + whole)
        assert len(list(RecordReader([str(path)]))) == 2 + bool(whole)


def test_a_bad_line_that_is_not_cut_is_collected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rejected: list[RecordError] = []
    for content in (LINES + b"not json", LINES + b'{"id":"1","text":\n'):
        path.write_bytes(content)
        assert len(list(RecordReader([str(path)], rejected.append))) == 2
    assert len(rejected) == 2


def test_sources_without_records_are_named(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abcd"]
    for path in paths:
        path.write_bytes(b"\n \n")
    names = list(map(str, paths))
    for read in (RecordReader, lambda some: read_blocks(RecordReader(some))):
        with pytest.raises(DataError) as caught:
            list(read(names[:2]))
        assert str(caught.value) == (f"{names[0]}, {names[1]}: found no records, expected at least "
                                     "one")
    with pytest.raises(DataError, match=r"c and 1 more: found no records.*; use allow_empty"):
        list(RecordReader(names, allow_empty=False))
    assert list(RecordReader(names, allow_empty=True)) == []
    paths[3].write_bytes(LINES)
    assert len(list(RecordReader(names))) == 2


@pytest.mark.parametrize(("line", "reason"), [
    (b'{"id":"1","text":', "expected a JSON object on one line"),
    (b"[1]", "found another JSON value, expected a JSON object on one line"),
    (b'{"id":"1","text":"\xe8"}', "byte 19 is not UTF-8"),
    (b'{"id":"1"}', "key 'text' is missing"),
    (b'{"id":"1","text":"x","meta":{"y":[5,-1e999]}}', "found the number -1e999, which is out of "
     "range, expected numbers of up to 1.8e308"),
])
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES + line + b"\n")
    with pytest.raises(RecordError) as caught:
        list(RecordReader([str(path)]))
    assert str(caught.value).startswith(f"{path}:4: ")
    assert reason in str(caught.value)


def test_lines_after_rejected_lines_are_read(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_compressed_file_is_read_completely_or_rejected(tmp_path: Path,
                                                          pack: Callable[[bytes], bytes]) -> None:
    """The file may be cut at any byte, even if the text before it ends with a line end."""
    lines = [b'{"id":"%d","text":"cuore %d"}\n' % (number, number * 7919) for number in range(3000)]
    packed = pack(b"".join(lines))
    path = tmp_path / "records"
    for size in range(len(packed) // 20, len(packed), len(packed) // 20):
        path.write_bytes(packed[:size])
        with pytest.raises(DataError, match="damaged compressed data"):
            list(RecordReader([str(path)]))


@pytest.mark.parametrize("library", ["isal", "zlib"])
def test_both_libraries_decompress_or_reject_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  library: str) -> None:
    """Changed bits in each part of the file: header, data, checksum and length."""
    opened = import_module("isal.igzip").IGzipFile if library == "isal" else gzip.GzipFile
    if library == "zlib":
        monkeypatch.setitem(sys.modules, "isal.igzip", None)
    path = tmp_path / "a.gz"
    packed = gzip.compress(LINES)
    path.write_bytes(packed + packed)
    with open_bytes(str(path)) as stream:
        assert stream.read() == 2 * LINES
        assert isinstance(stream.raw, opened)  # type: ignore[attr-defined]
    for place in (2, 12, len(packed) // 2, len(packed) - 6, len(packed) - 2):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 255]) + packed[place + 1:])
        with pytest.raises(DataError, match=r"a\.gz: damaged compressed data"), \
                open_bytes(str(path)) as stream:
            stream.read()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl: no such file"):
        list(RecordReader([str(tmp_path / "absent.jsonl")]))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_records_survive_a_round_trip(tmp_path: Path, name: str) -> None:
    records = [{"id": "1", "text": "perché\u2028no", "z": [1, {"y": None}]}]
    path = tmp_path / name
    assert write_records(records, str(path)) == 1
    assert list(RecordReader([str(path)])) == records


def test_items_of_a_list_have_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_bytes(b"\xef\xbb\xbf one \n\ntwo words\r\n")
    assert read_list(str(path)) == [(1, "one"), (3, "two words")]
    path.write_bytes(b"\n  \n")
    with pytest.raises(DataError, match="found no drugs, expected one per line"):
        read_list(str(path), "drugs")


@pytest.mark.parametrize(("name", "expected"), [
    ("-", "stdin"), ("ner/test.tsv", "test"), ("test.tsv.gz", "test"), ("a.b.txt.zst", "a.b"),
    ("notes", "notes"), ("notes.gz", "notes")])
def test_the_stem_of_a_source_has_no_endings(name: str, expected: str) -> None:
    assert source_stem(name) == expected
