"""JSON Lines, lines and bytes from files or stdin, compressed or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.records import ORIGINS, Record, check

STDIN = "-"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_COMPRESSED = (".gz", ".zst", ".zstd")
_BOM = b"\xef\xbb\xbf"
_IGNORED = "\ufeff\x1e"  # at the start of a line: BOMs of joined files, separators of RFC 7464
NOT_UTF8 = "byte {} is not UTF-8; convert the file first (iconv -t UTF-8)"

@contextmanager
def open_bytes(name: str) -> Iterator[BinaryIO]:
    """Open a file, or stdin for `-`, undoing gzip or zstd by content and dropping a UTF-8 BOM.

    Raises:
        DataError: the file is missing, unreadable or damaged.
    """
    try:
        raw: Any
        with nullcontext(sys.stdin.buffer) if name == STDIN else Path(name).open("rb") as raw:
            stream, head = raw, raw.peek(4)[:4]
            if head[:2] == _GZIP:
                stream = io.BufferedReader(gzip.GzipFile(fileobj=raw))
            elif head == _ZSTD:
                reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
                stream = io.BufferedReader(reader)
            if stream.peek(3)[:3] == _BOM:
                stream.read(3)
            yield stream
    except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(f"{source_name(name)}: damaged compressed data ({error}); "
                        "copy or download the file again") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        if error.filename is None or str(error.filename) != name:
            raise
        raise DataError(f"{name}: {(error.strerror or 'cannot be read').lower()}; "
                        "expected a readable file") from error


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
                    f"{source_name(name)}:{number}: {NOT_UTF8.format(error.start + 1)}") from error


def read_list(name: str, kind: str = "terms") -> list[tuple[int, str]]:
    """Read a list, one item a line, with line numbers; blank lines are skipped.

    Raises:
        DataError: nothing is listed, or bytes that are not UTF-8.
    """
    found = [(number, line.strip()) for number, line in read_lines(name) if line.strip()]
    if not found:
        raise DataError(f"{source_name(name)}: found no {kind}, expected one a line")
    return found


@dataclass(eq=False)
class RecordReader:
    """Reader of records from several sources, one after the other, once.

    Args:
        names: files, or `-` for stdin.
        reject: receives each bad record; raises it by default.

    Attributes:
        hashes: SHA-256 of the uncompressed content of each source read to its end, by name.
    """

    names: Sequence[str]
    reject: Reject = refuse
    hashes: dict[str, str] = field(default_factory=dict, init=False)
    _origins: dict[str, set[str]] = field(
        default_factory=lambda: {key: set() for key in ORIGINS}, init=False)

    def __iter__(self) -> Iterator[Record]:
        for name in self.names:
            digest = hashlib.sha256()
            with open_bytes(name) as stream:
                for record in parse_records(stream, source_name(name), self.reject,
                                            digest=digest):
                    for key, found in self._origins.items():
                        if record.get(key):
                            found.add(record[key])
                    yield record
            self.hashes[source_name(name)] = digest.hexdigest()

    def origins(self) -> dict[str, list[str]]:
        """Return languages and licences of the records read, by the names in `ORIGINS`."""
        return {ORIGINS[key]: sorted(found) for key, found in self._origins.items() if found}


def parse_records(lines: Iterable[bytes], name: str, reject: Reject, before: int = 0,
                  digest: hashlib._Hash | None = None) -> Iterator[Record]:
    """Parse and check lines, one record each; blank ones are skipped.

    Args:
        lines: UTF-8.
        name: name of their source in messages.
        reject: receives bad records.
        before: lines of the source before these.
        digest: updated with the lines.
    """
    for number, line in enumerate(lines, before + 1):
        if digest is not None:
            digest.update(line)
        place = f"{name}:{number}"
        try:
            text = line.decode("utf-8").lstrip(_IGNORED)
            if not text.strip():
                continue
            record = Record(msgspec.json.decode(text, type=dict), place=place)
            check(record)
        except UnicodeDecodeError as error:
            reject(RecordError(place, NOT_UTF8.format(error.start + 1),
                               line.decode("utf-8", "replace").rstrip()))
        except msgspec.DecodeError as error:
            found = "another JSON value" if isinstance(error, msgspec.ValidationError) else \
                f"{text.strip()[:40]!r} ({error})"
            reject(RecordError(place, f"found {found}, expected a JSON object on one line",
                               text.rstrip()))
        except RecordError as error:
            reject(error)
        else:
            yield record


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
            yield from RecordReader([str(item)], reject)
