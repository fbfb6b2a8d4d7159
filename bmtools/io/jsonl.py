"""JSON Lines, lines and bytes from files or stdin, compressed or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import jsonlines
import msgspec
import zstandard

from bmtools.errors import BmtoolsError, DataError, RecordError, Reject, refuse
from bmtools.io.atomic import new_file
from bmtools.records import Record, check

STDIN = "-"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_COMPRESSED = (".gz", ".zst", ".zstd")
_BOM = b"\xef\xbb\xbf"


@contextmanager
def open_bytes(name: str) -> Iterator[BinaryIO]:
    """Open a file, or stdin for `-`, undoing gzip or zstd by content and dropping a UTF-8 BOM.

    Raises:
        DataError: the file is missing, unreadable or damaged.
    """
    try:
        with _raw(name) as raw:
            stream = _decompressed(raw)
            if stream.peek(3)[:3] == _BOM:
                stream.read(3)
            yield cast(BinaryIO, stream)
    except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(f"{source_name(name)}: damaged compressed data ({error}); "
                        "copy or download the file again") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        if error.filename is None or str(error.filename) != name:
            raise
        raise DataError(f"{name}: {(error.strerror or 'cannot be read').lower()}; "
                        "expected a readable file") from error


@contextmanager
def _raw(name: str) -> Iterator[io.BufferedReader]:
    if name == STDIN:
        yield cast(io.BufferedReader, sys.stdin.buffer)
    else:
        with Path(name).open("rb") as stream:
            yield stream


def _decompressed(raw: io.BufferedReader) -> io.BufferedReader:
    head = raw.peek(4)[:4]
    if head[:2] == _GZIP:
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)))
    if head == _ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return io.BufferedReader(cast(io.RawIOBase, reader))
    return raw


def source_name(name: str) -> str:
    """Return the name of a source for messages."""
    return "<stdin>" if name == STDIN else name


def source_stem(name: str) -> str:
    """Return a source's name without directory and endings: `ner/test.tsv.gz` is `test`."""
    if name == STDIN:
        return "stdin"
    path = Path(name)
    return Path(path.stem if path.suffix in _COMPRESSED else path.name).stem


def read_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of UTF-8 text without their `\\n`; no other character ends a line.

    Raises:
        DataError: bytes that are not UTF-8, named by line.
    """
    with open_bytes(name) as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield number, line.removesuffix(b"\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{source_name(name)}:{number}: byte {error.start + 1} is not UTF-8; "
                    "convert the file first (iconv -t UTF-8)") from error


def read_list(name: str, what: str = "terms") -> list[tuple[int, str]]:
    """Read a list, one item a line, with line numbers; blank lines are skipped.

    Raises:
        DataError: nothing is listed, or bytes that are not UTF-8.
    """
    found = [(number, line.strip()) for number, line in read_lines(name) if line.strip()]
    if not found:
        raise DataError(f"{source_name(name)}: found no {what}, expected one a line")
    return found


class RecordReader:
    """Reader of records from several sources, one after the other, once.

    Args:
        names: files, or `-` for stdin.
        reject: receives each bad record; raises it by default.

    Attributes:
        hashes: SHA-256 of the uncompressed content of each source read to its end, by name.
    """

    def __init__(self, names: Iterable[str], reject: Reject = refuse) -> None:
        self.names = tuple(names)
        self.reject = reject
        self.hashes: dict[str, str] = {}

    def __iter__(self) -> Iterator[Record]:
        for name in self.names:
            yield from self._records_of(name)

    def _records_of(self, name: str) -> Iterator[Record]:
        digest = hashlib.sha256()
        with open_bytes(name) as stream:
            yield from parse_records(_digested(stream, digest), source_name(name), self.reject)
        self.hashes[source_name(name)] = digest.hexdigest()


def parse_records(lines: Iterable[bytes], name: str, reject: Reject,
                  before: int = 0) -> Iterator[Record]:
    """Parse and check lines, one record each; blank ones are skipped.

    Args:
        lines: UTF-8.
        name: what messages call their source.
        reject: receives bad records.
        before: lines of the source before these.
    """
    reader = jsonlines.Reader(lines, loads=msgspec.json.decode)
    number = 0
    while True:
        try:
            number, content = _next_object(reader, number)
            record = Record(content, place=f"{name}:{before + number}")
            check(record)
        except EOFError:
            return
        except jsonlines.InvalidLineError as error:
            number = error.lineno
            reject(RecordError(f"{name}:{before + number}", _json_fault(error),
                               _text_of(error.line)))
            continue
        except RecordError as error:
            reject(error)
            continue
        yield record


def _digested(stream: Iterable[bytes], digest: Any) -> Iterator[bytes]:
    for line in stream:
        digest.update(line)
        yield line


def _next_object(reader: jsonlines.Reader, number: int) -> tuple[int, dict[str, Any]]:
    """Read the next object and its line number; blank lines are counted and skipped."""
    while True:
        number += 1
        try:
            return number, cast(dict[str, Any], reader.read(type=dict))
        except jsonlines.InvalidLineError as error:
            if error.line.strip():
                raise


def _json_fault(error: jsonlines.InvalidLineError) -> str:
    cause = error.__cause__
    if isinstance(cause, UnicodeDecodeError):
        return (f"byte {cause.start + 1} is not UTF-8; "
                "convert the file first (iconv -t UTF-8)")
    found = f"{_text_of(error.line).strip()[:40]!r} ({cause})" if cause else "another JSON value"
    return f"found {found}, expected a JSON object on one line"


def _text_of(line: str | bytes) -> str:
    return line if isinstance(line, str) else line.decode("utf-8", "replace")


def read_records(*names: str, reject: Reject = refuse) -> RecordReader:
    """Read JSON Lines from files, or stdin for `-`."""
    return RecordReader(names, reject)


def read_objects(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of a file, which need not be records, each after its `file:line`.

    Raises:
        DataError: a line that is no JSON object; blank ones are skipped.
    """
    for number, line in read_lines(name):
        if line.strip():
            place = f"{source_name(name)}:{number}"
            try:
                yield place, msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise DataError(f"{place}: found {line[:40]!r} ({error}), expected a JSON object "
                                "on one line") from error


def as_records(source: str | PathLike[str] | Iterable[Any],
               reject: Reject = refuse) -> Iterator[Record]:
    """Read records from one file or several, or take dictionaries as records.

    Args:
        source: name of a file, or an iterable of names, records or dictionaries.
        reject: receives bad records.
    """
    for number, item in enumerate([source] if isinstance(source, str | PathLike) else source, 1):
        if isinstance(item, Record):
            yield item
        elif isinstance(item, Mapping):
            record = Record(item, place=f"record {number}")
            try:
                check(record)
            except RecordError as error:
                reject(error)
            else:
                yield record
        else:
            yield from read_records(str(item), reject=reject)


def encode_line(content: Any) -> bytes:
    """Encode one JSON line with its `\\n`; keys keep their order, text stays UTF-8."""
    return msgspec.json.encode(content) + b"\n"


@contextmanager
def open_output(name: str) -> Iterator[IO[bytes]]:
    """Open stdout for `-`, or a file that appears when whole; `.gz` and `.zst` compress."""
    if name == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if Path(name).is_dir():
        raise BmtoolsError(f"{name}: found a directory, expected the name of a file to write")
    with new_file(Path(name)) as stream:
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif name.endswith((".zst", ".zstd")):
            with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield stream


def write_records(records: Iterable[Any], output: str = STDIN, flush: bool = False) -> int:
    """Write JSON Lines and return how many; `flush` sends each line at once."""
    count = 0
    with open_output(output) as stream:
        for record in records:
            stream.write(encode_line(record))
            if flush:
                stream.flush()
            count += 1
    return count
