"""Readers of JSON Lines from files or stdin: records and other objects."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from os import PathLike
from typing import Any, TypeVar

import msgspec

from bmtools.errors import DataError, RecordError, Reject, listed, refuse, require, setting
from bmtools.io.foreign import not_utf8, refuse_foreign
from bmtools.io.incomplete import refuse_incomplete
from bmtools.io.record_size import to_end_of_line
from bmtools.io.sources import (
    note_of,
    open_text,
    placed_lines,
    source_name,
    split_line,
    with_newlines,
)
from bmtools.records import CHECKED, ORIGINS, JsonObject, Record, RecordFields, check, passes_check

_OBJECTS = msgspec.json.Decoder(JsonObject)
_IGNORED = "\ufeff\x1e"  # at the start of a line: BOMs of joined files, separators of RFC 7464
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TRUNCATED = "Input data was truncated"  # msgspec's message for JSON that ends too early
_UNEXPECTED_END = "unexpected end of data"  # Python's message for UTF-8 that ends too early
_SOURCES_NAMED = 3
_CHUNK_BYTES = 1 << 17


@dataclass(frozen=True)
class Block:
    """Block of complete lines of one file, about a megabyte.

    Args:
        number: number of blocks before this one, over all files.
        name: name of the file in messages.
        first_line: number of the block's first line in the file.
        lines: the lines in UTF-8, all with line ends except perhaps the file's last line.
        before: hash of all content before the block.
        after: hash of all content up to the end of the block.
        start: offset of the block in the file, in bytes.
        size: size of the block in the file, in which line ends may be longer.
        earlier_lines: number of lines in earlier files.
        line_count: number of lines in the block.
    """

    number: int
    name: str
    first_line: int
    lines: bytes
    before: str
    after: str = ""
    start: int = 0
    size: int = 0
    earlier_lines: int = 0
    line_count: int = 0

    def records(self, reject: Reject) -> Iterator[Record]:
        """Parse and check the block's records; see `parse_lines`."""
        return parse_lines(self.lines, self.name, reject, self.first_line - 1)

    def without_lines(self) -> Block:
        """Return a copy without the lines, which only describes where the block is."""
        return replace(self, lines=b"")

    def line_of(self, record: Record) -> int:
        """Return the number of lines in the block before a record."""
        return int(record.place.rpartition(":")[2]) - self.first_line


@dataclass(eq=False)
class RecordReader:
    """Reader of records from several sources, one after the other; it can be read once.

    Args:
        names: files, or `-` for stdin.
        reject: receives each bad record; by default it raises the error.
        allow_empty: whether sources without records are accepted; None if the command has no such
            option.

    Attributes:
        hashes: SHA-256 of the uncompressed content of each completely read source, by name.
    """

    names: Sequence[str]
    reject: Reject = refuse
    allow_empty: bool | None = None
    hashes: dict[str, str] = field(default_factory=dict, init=False)
    _origins: dict[str, set[str]] = field(
        default_factory=lambda: {key: set() for key in ORIGINS}, init=False)

    def __iter__(self) -> Iterator[Record]:
        is_empty = True
        for block in self.blocks():
            for record in block.records(self.reject):
                is_empty = False
                for key, found in self._origins.items():
                    found.add(record.get(key, ""))
                yield record
        if is_empty:
            refuse_empty(self.names, self.allow_empty)

    def blocks(self, block_bytes: int = 0) -> Iterator[Block]:
        """Yield blocks of lines without parsing them; `hashes` is filled.

        Args:
            block_bytes: size of each block without the rest of its last line; 0 for a default size,
                and for the bytes available so far from a pipe.
        """
        number = earlier_lines = 0
        earlier = hashlib.sha256()
        for file, name in enumerate(self.names):
            digest = hashlib.sha256()
            start = lines = 0
            with open_text(name, takes_digest=False) as stream:
                read: Callable[[int], bytes] = stream.read if block_bytes or stream.seekable() \
                    else stream.read1  # type: ignore[attr-defined]
                while content := read(block_bytes or _CHUNK_BYTES):
                    content = to_end_of_line(content, stream, source_name(name), lines + 1)
                    before = f"{earlier.hexdigest()} {digest.hexdigest()}"
                    digest.update(content)
                    first, end = self.own_part(content, file, start)
                    lines += _count_lines(with_newlines(content[:first]))
                    own = with_newlines(content[first:end])
                    count = _count_lines(own)
                    if own:
                        yield Block(number, source_name(name), lines + 1, own, before,
                                    f"{earlier.hexdigest()} {digest.hexdigest()}", start + first,
                                    end - first, earlier_lines, count)
                        number += 1
                    if end < len(content):  # the rest belongs to another shard
                        return
                    lines += count
                    start += len(content)
            earlier_lines += lines
            earlier.update(digest.digest())
            self.hashes[source_name(name)] = digest.hexdigest()
            if note := note_of(name):
                note(name, digest.hexdigest())

    def own_part(self, content: bytes, number: int, start: int) -> tuple[int, int]:
        """Return the start and end of the lines for this reader within complete lines of a source.

        Args:
            content: the lines.
            number: index of the source among the names.
            start: offset of the content in the source, in bytes.
        """
        return 0, len(content)

    def origins(self) -> dict[str, list[str]]:
        """Return the languages and licences of the records read, by their names in `ORIGINS`."""
        return {ORIGINS[key]: stated for key, found in self._origins.items()
                if (stated := sorted(filter(None, found)))}

    def licences(self) -> list[str]:
        """Return the licences of the records read; records without one add an empty string."""
        return sorted(self._origins["licence"])


def _count_lines(content: bytes) -> int:
    """Count lines; the last line may have no line end."""
    return content.count(b"\n") + (not content.endswith(b"\n") if content else 0)


def refuse_empty(names: Sequence[str], allow_empty: bool | None = None,
                 what: str = "records") -> None:
    """Raise an error for sources without content, unless that is allowed or there are no sources.

    Raises:
        DataError: names the sources.
    """
    if names and not allow_empty:
        shown = listed([*map(source_name, names)], _SOURCES_NAMED)
        way_out = f"; use {setting('allow_empty')} to accept it" if allow_empty is False else ""
        raise DataError(f"{shown}: found no {what}, expected at least one{way_out}")


def parse_lines(content: bytes, name: str, reject: Reject, before: int = 0) -> Iterator[Record]:
    """Parse and check complete lines together, or one by one if one of them has a fault.

    Args:
        content: the lines in UTF-8; all end in LF except perhaps the last line of a source.
        name: name of the source in messages.
        reject: receives bad records.
        before: number of earlier lines in the source.
    """
    found = _parse_at_once(content)
    if found is None:
        yield from parse_records(io.BytesIO(content), name, reject, before)
        return
    for number, keys in enumerate(found, before + 1):
        record = Record.read(keys, f"{name}:{number}")
        if CHECKED.isdisjoint(keys) or passes_check(record, reject):
            yield record


_ends = itemgetter(0, -1)
_OBJECT = tuple(b"{}")
_UNREADABLE = msgspec.MsgspecError, UnicodeDecodeError, RecursionError
Decoded = TypeVar("Decoded")


def decode_objects(content: bytes, decoder: msgspec.json.Decoder[Decoded]) -> list[Decoded] | None:
    """Decode lines with one object each, the usual case; return None for other lines.

    The parser accepts any white space between objects. No value continues after `}`, LF and `{`. So
    each line contains at least one object, and exactly one if there are as many objects as lines.
    """
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if all(lines) and {_OBJECT}.issuperset(map(_ends, lines)):
        with suppress(*_UNREADABLE):
            found = decoder.decode_lines(content)
            if len(found) == len(lines):
                return found
    return None


def _parse_at_once(content: bytes) -> list[JsonObject] | None:
    found = decode_objects(content, _OBJECTS)
    with suppress(*_UNREADABLE):
        msgspec.convert(found, list[RecordFields] | None)
        return found
    return None


def parse_records(lines: Iterable[bytes], name: str, reject: Reject,
                  before: int = 0) -> Iterator[Record]:
    """Parse and check lines with one record each; skip blank lines.

    Args:
        lines: lines in UTF-8 with line ends. A last line without line end that is not complete JSON
            counts as cut off.
        name: name of the source in messages.
        reject: receives bad records.
        before: number of earlier lines in the source.

    Raises:
        DataError: the lines are not records, or end before the records are complete.
    """
    number = before
    for line in lines:
        for part in split_line(line) if b"\r" in line else (line,):
            number += 1
            place = f"{name}:{number}"
            try:
                text = part.decode("utf-8").lstrip(_IGNORED)
                if not text.strip():
                    continue
                record = Record(_OBJECTS.decode(text), place=place)
                check(record)
            except (UnicodeDecodeError, msgspec.DecodeError, RecursionError,
                    RecordError) as error:
                if not line.endswith((b"\n", b"\r")):
                    _refuse_cut(error, part, place)
                reject(_record_error(error, part.rstrip(b"\n"), place, name, number == 1))
            else:
                yield record


def _refuse_cut(error: Exception, line: bytes, place: str) -> None:
    """Raise an error if a last line without line end is the start of a JSON object."""
    is_cut = error.reason == _UNEXPECTED_END if isinstance(error, UnicodeDecodeError) else \
        str(error).startswith(_TRUNCATED) or ("invalid number" in str(error)
                                              and line.endswith((b"-", b"+", b".", b"e", b"E")))
    if is_cut:
        shown = line.decode("utf-8", "ignore")[-40:]
        raise DataError(f"{place}: the last line is cut off, after {shown!r}; the records are "
                        "incomplete, so make or copy them again") from error


def _record_error(error: Exception, line: bytes, place: str, name: str,
                  is_first: bool) -> RecordError:
    """Describe the fault of a line; for a first line, also name the command that makes records.

    Raises:
        DataError: the producer of the records failed, or the source is in another format.
    """
    if isinstance(error, UnicodeDecodeError):
        return RecordError(place, not_utf8(line, error.start, name),
                           line.decode("utf-8", "replace"))
    if isinstance(error, RecordError):
        refuse_incomplete(error.content, place)
        if not is_first or not error.reason.endswith("is missing"):
            return error
        return RecordError(place, f"{error.reason}; type bmtools import jsonl --help for records "
                                  "under other keys", error.content)
    text = line.decode("utf-8").lstrip(_IGNORED)
    if fault := too_large(text, error):
        return RecordError(place, fault, text)
    refuse_foreign(text, place)
    found = "another JSON value" if isinstance(error, msgspec.ValidationError) else \
        f"{text.strip()[:40]!r} ({error})"
    prose = "; for plain text, type bmtools import text" \
        if is_first and not text.lstrip().startswith(("{", "[", '"')) else ""
    return RecordError(place, f"found {found}, expected a JSON object on one line{prose}", text)


def too_large(line: str, error: Exception) -> str:
    """Return a message for a number too large for a float; empty if the error is another one."""
    if "out of range" not in str(error):
        return ""
    numbers = (one for one in _NUMBER.findall(line) if math.isinf(float(one)))
    return (f"found the number {next(numbers, '')[:40]}, which is out of range, expected numbers "
            "of up to 1.8e308")


def read_objects(*names: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the JSON objects of files, which need not be records, each with its `file:line`.

    Raises:
        DataError: a line is not a JSON object, or there are no lines; blank lines are skipped.
    """
    is_empty = True
    for name in names:
        for place, line in placed_lines(name):
            is_empty = False
            try:
                content = msgspec.json.decode(line, type=JsonObject)
            except (msgspec.MsgspecError, RecursionError) as error:
                refuse_foreign(line, place, "JSON Lines")
                raise DataError(f"{place}: found {line[:40]!r} ({error}), expected a JSON object "
                                "on one line") from error
            refuse_incomplete(content, place)
            yield place, content
    if is_empty:
        refuse_empty(names, what="lines")


def as_records(source: str | PathLike[str] | Iterable[Any],
               reject: Reject = refuse) -> Iterator[Record]:
    """Read records from one file or several, or convert dictionaries to records.

    Args:
        source: name of a file, or an iterable of names, records or dictionaries.
        reject: receives bad records.

    Raises:
        ValueError: the source is a table, or has items of another type.
    """
    require(not hasattr(source, "columns"), "records", f"a {type(source).__name__}",
            "files or dictionaries; convert a pandas frame with frame.to_dict('records')")
    for number, item in enumerate([source] if isinstance(source, str | PathLike) else source, 1):
        if isinstance(item, Record):
            yield item
        elif isinstance(item, Mapping):
            record = Record(item, place=f"record {number}")
            if passes_check(record, reject):
                yield record
        else:
            require(isinstance(item, str | PathLike), "records", repr(item),
                    "files or dictionaries")
            yield from RecordReader([str(item)], reject, allow_empty=True)
