"""JSON Lines from files or stdin: records, and other objects."""

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

from bmtools.errors import DataError, RecordError, Reject, refuse, require, setting
from bmtools.io.foreign import importer, not_utf8
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
_TRUNCATED = "Input data was truncated"  # msgspec's words for JSON that ends too early
_UNEXPECTED_END = "unexpected end of data"  # Python's for UTF-8 that does
_SOURCES_NAMED = 3
_CHUNK_BYTES = 1 << 17


@dataclass(frozen=True)
class Block:
    """Block of whole lines of one file, about a megabyte.

    Args:
        number: blocks before it, over all files.
        name: the file as messages name it.
        first_line: number of its first line in the file.
        lines: UTF-8, each with its end but perhaps the file's last one.
        before: hash of all content before it.
        after: hash of all content to its end.
        start: bytes of the file before it.
        size: its bytes in the file, where ends of lines may be longer.
        earlier_lines: lines of the files before this one.
        line_count: of its lines.
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
        """Parse and check its records; see `parse_lines`."""
        return parse_lines(self.lines, self.name, reject, self.first_line - 1)

    def without_lines(self) -> Block:
        """Return the block as a note of where it is."""
        return replace(self, lines=b"")

    def line_of(self, record: Record) -> int:
        """Return how many lines of the block are before that of a record."""
        return int(record.place.rpartition(":")[2]) - self.first_line


@dataclass(eq=False)
class RecordReader:
    """Reader of records from several sources, one after the other, once.

    Args:
        names: files, or `-` for stdin.
        reject: receives each bad record; raises it by default.
        allow_empty: whether sources without a single record are read without an error; None where
            that cannot be set.

    Attributes:
        hashes: SHA-256 of the uncompressed content of each source read to its end, by name.
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
        """Yield the lines that this reader reads, without parsing them; `hashes` is filled.

        Args:
            block_bytes: of each block, before the rest of a line; 0 for some, of a pipe as they
                come.
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
                    if end < len(content):  # the rest is another shard's
                        return
                    lines += count
                    start += len(content)
            earlier_lines += lines
            earlier.update(digest.digest())
            self.hashes[source_name(name)] = digest.hexdigest()
            if note := note_of(name):
                note(name, digest.hexdigest())

    def own_part(self, content: bytes, number: int, start: int) -> tuple[int, int]:
        """Return where the lines that this reader reads begin and end in whole lines of a source.

        Args:
            content: the lines.
            number: of the source among the names.
            start: bytes before them in the source.
        """
        return 0, len(content)

    def origins(self) -> dict[str, list[str]]:
        """Return languages and licences of the records read, by the names in `ORIGINS`."""
        return {ORIGINS[key]: stated for key, found in self._origins.items()
                if (stated := sorted(filter(None, found)))}

    def licences(self) -> list[str]:
        """Return the licences of the records read; an empty one where some state none."""
        return sorted(self._origins["licence"])


def _count_lines(content: bytes) -> int:
    """Count lines, of which the last one may have no end."""
    return content.count(b"\n") + (not content.endswith(b"\n") if content else 0)


def refuse_empty(names: Sequence[str], allow_empty: bool | None = None,
                 what: str = "records") -> None:
    """Refuse sources in which nothing was found, unless that is allowed or there are none.

    Raises:
        DataError: names the sources.
    """
    if names and not allow_empty:
        listed = ", ".join(map(source_name, names[:_SOURCES_NAMED]))
        more = f" and {len(names) - _SOURCES_NAMED} more" if len(names) > _SOURCES_NAMED else ""
        way_out = f"; {setting('allow_empty')} accepts none" if allow_empty is False else ""
        raise DataError(f"{listed}{more}: found no {what}, expected at least one{way_out}")


def parse_lines(content: bytes, name: str, reject: Reject, before: int = 0) -> Iterator[Record]:
    """Parse and check whole lines in one go, or one by one where something is wrong with them.

    Args:
        content: the lines, UTF-8; all end in LF but perhaps the last one of a source.
        name: name of their source in messages.
        reject: receives bad records.
        before: lines of the source before these.
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
    """Decode lines of an object each, as nearly all are; None where they may be others.

    The parser takes any white space between objects. No value goes on after `}`, LF and `{`, so
    there is an object at least on each line, and if there are as many as lines, one.
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
    """Parse and check lines, one record each; blank ones are skipped.

    Args:
        lines: UTF-8, with their ends, without which the last one is taken for cut off if it is no
            whole JSON.
        name: name of their source in messages.
        reject: receives bad records.
        before: lines of the source before these.

    Raises:
        DataError: lines that are no records at all, or that end before they are complete.
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
    """Refuse a last line without an end that is the beginning of a JSON object."""
    is_cut = error.reason == _UNEXPECTED_END if isinstance(error, UnicodeDecodeError) else \
        str(error).startswith(_TRUNCATED) or ("invalid number" in str(error)
                                              and line.endswith((b"-", b"+", b".", b"e", b"E")))
    if is_cut:
        shown = line.decode("utf-8", "ignore")[-40:]
        raise DataError(f"{place}: the last line is cut off, after {shown!r}; the records are "
                        "incomplete, so make or copy them again") from error


def _record_error(error: Exception, line: bytes, place: str, name: str,
                  is_first: bool) -> RecordError:
    """Say what is wrong with a line, and on the first one how records are made of such a source.

    Raises:
        DataError: the producer of the records did not finish, or the source is in another format.
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
    if is_first and (hint := importer(text, name)):
        raise DataError(f"{place}: {hint}") from error
    found = "another JSON value" if isinstance(error, msgspec.ValidationError) else \
        f"{text.strip()[:40]!r} ({error})"
    prose = "; for plain text, type bmtools import text" \
        if is_first and not text.lstrip().startswith(("{", "[", '"')) else ""
    return RecordError(place, f"found {found}, expected a JSON object on one line{prose}", text)


def too_large(line: str, error: Exception) -> str:
    """Name the number in a line of JSON that no float holds; empty if it is not the error."""
    if "out of range" not in str(error):
        return ""
    numbers = (one for one in _NUMBER.findall(line) if math.isinf(float(one)))
    return (f"found the number {next(numbers, '')[:40]}, which is out of range, expected numbers "
            "of up to 1.8e308")


def read_objects(*names: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the JSON objects of files, which need not be records, each after its `file:line`.

    Raises:
        DataError: a line that is no JSON object, or no line at all; blank ones are skipped.
    """
    is_empty = True
    for name in names:
        for place, line in placed_lines(name):
            is_empty = False
            try:
                content = msgspec.json.decode(line, type=JsonObject)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise DataError(f"{place}: found {line[:40]!r} ({error}), expected a JSON object "
                                "on one line") from error
            refuse_incomplete(content, place)
            yield place, content
    if is_empty:
        refuse_empty(names, what="lines")


def as_records(source: str | PathLike[str] | Iterable[Any],
               reject: Reject = refuse) -> Iterator[Record]:
    """Read records from one file or several, or take dictionaries as records.

    Args:
        source: name of a file, or an iterable of names, records or dictionaries.
        reject: receives bad records.

    Raises:
        ValueError: a table, or items of another kind.
    """
    require(not hasattr(source, "columns"), "records", f"a {type(source).__name__}",
            "files or dictionaries; frame.to_dict('records') of pandas gives them")
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
