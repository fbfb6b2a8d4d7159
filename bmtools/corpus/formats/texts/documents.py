"""Documents in separate files: HTML pages, PDF, EPUB."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bmtools.corpus.formats.tally import Tally
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import corpus_files
from bmtools.io.record_size import limited_bytes
from bmtools.io.sources import open_bytes, source_name, source_stem
from bmtools.records import JsonObject, Record

MOST_RECORDS = 8
"""Maximum size, in maximum records, of a file with more than text, such as images."""
_WITHIN = re.compile(r"((?:/[^:]*)?(?::\d+)?): ")  # the name of a part of a file, and a line
HEAD_BYTES = 4096
_CHARSET = re.compile(rb"""<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,200}?encoding)\s*=\s*"""
                      rb"""["']?([\w:.-]+)""", re.IGNORECASE)
# Pages that declare these charsets are Windows-1252, as in browsers.
_AS_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
_SEVEN_BITS = re.compile("iso-?2022|hz", re.IGNORECASE)  # they look like ASCII, and so like UTF-8
_NO_CHARSETS = {"punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"),
          (codecs.BOM_UTF16_BE, "utf-16"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))


def document_records(names: Iterable[str], endings: Iterable[str],
                     read: Callable[[str, Counter[str]], JsonObject | None], tally: Tally,
                     folder: str = "") -> Iterator[Record]:
    """Yield a record for every file, with the file's name as id.

    Args:
        names: files, folders and archives; see `corpus_files`.
        endings: endings of the files to read from folders and archives.
        read: returns the keys of a record except for the id; if it cannot make a record, it counts
            the reason and returns None.
        tally: counts omissions by reason, and rejects a file that cannot be read.
        folder: folder that contains the names, if any.
    """
    for name in names:
        for file in corpus_files(name, *endings, counts=tally.counts, folder=folder):
            try:
                document = read(file, tally.counts)
            except DataError as error:
                tally.reject(file_error(file, error))
                continue
            if document is not None:
                yield Record(id=file_id(file, folder or name), **document, place=source_name(file))


def file_id(file: str, name: str) -> str:
    """Return a file's path in the given folder or archive, without endings."""
    if file == name:
        return source_stem(file)
    path, outer = Path(source_name(file)), Path(source_name(name))
    within = source_name(file) if path == outer or not path.is_relative_to(outer) else str(
        path.relative_to(outer))
    parent, slash, _ = within.rpartition("/")
    return parent + slash + source_stem(within)


def file_error(file: str, error: DataError) -> RecordError:
    """Convert a file's error to a record's error, for `reject`."""
    told = str(error).removeprefix(source_name(file))
    within = _WITHIN.match(told)
    place = source_name(file) + (within[1] if within else "")
    return RecordError(place, told[within.end() if within else 0:])


def whole_file(name: str, records: int = 1) -> bytes:
    """Read a complete file.

    Args:
        name: name of the file; `-` for stdin.
        records: maximum size of the file, in maximum records.

    Raises:
        DataError: the file is larger.
    """
    with open_bytes(name) as stream:
        return limited_bytes(stream, source_name(name), records=records)


def decoded(content: bytes, charset: str | None, counts: Counter[str]) -> str:
    """Decode a page: valid UTF-8 as UTF-8, even if the page declares Latin-1, as many do."""
    mark = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    named = _CHARSET.search(content, 0, HEAD_BYTES)
    claimed = list(filter(None, (charset, named and named[1].decode("ascii", "ignore"))))
    for encoding in filter(None, (mark, *filter(_SEVEN_BITS.match, claimed), "utf-8", *claimed,
                                  "cp1252")):
        try:
            known = codecs.lookup(encoding).name
            if known not in _NO_CHARSETS:
                return content.decode(_AS_BROWSERS.get(known, known)).removeprefix("\ufeff")
        except (LookupError, ValueError):
            continue
    counts["pages with bytes that are invalid in every encoding"] += 1
    return content.decode("utf-8", "replace")


def joined(parts: Iterable[tuple[str, str]]) -> tuple[str, list[JsonObject]]:
    """Join texts by line breaks; return them with their labels and offsets for `meta.sections`."""
    sections, texts, end = list[JsonObject](), list[str](), -1
    for label, text in parts:
        start, end = end + 1, end + 1 + len(text)
        texts.append(text)
        sections.append({"label": label, "start": start, "end": end})
    return "\n".join(texts), sections


def filled(**keys: object) -> JsonObject:
    """Return a document with the keys that have a value."""
    return {key: value for key, value in keys.items() if value}
