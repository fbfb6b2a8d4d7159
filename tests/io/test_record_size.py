"""The size limit of records: small files that decompress to much, in every format."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from collections import deque
from io import BytesIO
from pathlib import Path

import pytest
from backports import zstd

from bmtools.errors import DataError
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import read_blocks
from bmtools.io.record_size import limited_lines, limiting_records
from bmtools.io.sources import read_lines

MEGABYTE = 1_000_000
XML = b'<?xml version="1.0"?>\n'
CITATION = XML + b"<PubmedArticleSet><PubmedArticle><MedlineCitation>"
# The start of a file, the content repeated after it, the command, and its message.
BOMBS = {
    "a line": (b'{"id": "a", "text": "', b"a", "jsonl", ":1: found a record of more than 32"),
    "lines of a paragraph": (b"", b"ab cd\n", "text --paragraphs", ":1: found a record of more"),
    "lines without LF": (b"", b"ab cd\r", "text", ":1: found a record of more than 32 megabytes"),
    "tokens of a sentence": (b"", b"a O\n", "conll", ":1: found a record of more than 32"),
    "one JSON object": (b'{"data": [\n', b'{"original": "a"},\n', "curated", ": found a record of"),
    "a line of standoff": (b"1|", b"a", "standoff --annotations FILE", ":1: found a record"),
    "elements in a citation": (CITATION, b"<a/>\n", "pubmed", ":1: found a record of more than 32"),
    "elements outside": (XML + b"<PubmedArticleSet>", b"<a>t</a>", "pubmed", ":1: found a record"),
    "levels": (XML + b"<PubmedArticleSet>", b"<a>", "pubmed", ":2: found a text over ten"),
    "text of an element": (CITATION, b"a", "pubmed", ":2: found a text over ten megabyt"),
    "a comment": (XML + b"<!--", b"a", "pubmed", ": found no element in the first megabyte"),
    "an attribute": (XML + b'<PubmedArticleSet a="', b"a", "pubmed", ": found no element in the"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_rejected_in_little_memory(kind: str, tmp_path: Path) -> None:
    head, unit, command, message = BOMBS[kind]
    path = tmp_path / "bomb.zst"
    packer, block = zstd.ZstdCompressor(level=1), unit * (4 * MEGABYTE // len(unit))
    with path.open("wb") as stream:
        stream.write(packer.compress(head))
        for _ in range(100):
            stream.write(packer.compress(block))
        stream.write(packer.flush())
    assert path.stat().st_size < MEGABYTE
    given = [str(path) if word == "FILE" else word for word in command.split()]
    done = in_memory(400, "import", *given, path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"bmtools: {path}{message}")


def test_other_archives_are_never_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "table.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"a" * 100 * MEGABYTE)
    done = in_memory(60, "import", "text", path)
    assert "found an Excel workbook, expected UTF-8 text" in done.stderr


def in_memory(megabytes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process with limited memory for data."""
    return subprocess.run(
        ["sh", "-c", f'ulimit -d {megabytes * 1000}; exec "$@"', "sh", sys.executable, "-m",
         "bmtools", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_limited_lines_equal_the_lines_of_the_stream() -> None:
    content = b"a\n\n" + b"b" * MEGABYTE + b"\nc\r\nd"
    for limit in (2, 32):
        with limiting_records(limit):
            assert list(limited_lines(BytesIO(content), "a")) == content.splitlines(keepends=True)


@pytest.mark.parametrize("end", [b"\n", b""], ids=["whole", "without an end"])
def test_the_limit_is_a_million_bytes_times_the_setting(end: bytes) -> None:
    """The end of a line does not count if the line has the maximum size."""
    fits = b"b" * (MEGABYTE - len(end)) + end
    with limiting_records(1):
        assert list(limited_lines(BytesIO(fits), "a")) == [fits]
        with pytest.raises(DataError, match="a:2: found a record of more than 1 megabyte, "):
            list(limited_lines(BytesIO(b"a\nb" + fits), "a"))


def test_every_way_to_read_lines_has_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    record = b'{"id": "a", "text": "' + b"b" * 2 * MEGABYTE + b'"}\n'
    path.write_bytes(gzip.compress(b'{"id": "a", "text": "b"}\n' * 2 + record))
    assert len(list(RecordReader([str(path)]))) == 3
    with limiting_records(1):
        for lines in (RecordReader([str(path)]), read_lines(str(path)),
                      read_blocks(RecordReader([str(path)]))):
            with pytest.raises(DataError, match=r"a\.jsonl\.gz:3: found a record of more than 1 "
                                                "megabyte, .*the limit with max_record_megabytes"):
                deque(lines, maxlen=0)
