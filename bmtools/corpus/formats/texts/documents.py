"""JsonObjects that are a file each: HTML pages, PDF, EPUB."""

from __future__ import annotations

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
"""Largest records whose size a file may have that holds more than text, as images."""
_WITHIN = re.compile(r"((?:/[^:]*)?(?::\d+)?): ")  # a file: the name of a part of it, a line


def document_records(names: Iterable[str], endings: Iterable[str],
                     read: Callable[[str, Counter[str]], JsonObject | None], tally: Tally,
                     folder: str = "") -> Iterator[Record]:
    """Yield a record for every file, with the file's name for an id.

    Args:
        names: files, folders and archives; see `corpus_files`.
        endings: of the files that are taken from folders and archives.
        read: returns the keys of a record but for the id; None where there is none to make, which
            it has counted.
        tally: counts what is left out, by reason, and rejects a file that cannot be read.
        folder: that the names were found in, if they are from one.
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
    """Name a file by its path in the folder or archive that was given, without its endings."""
    if file == name:
        return source_stem(file)
    path, outer = Path(source_name(file)), Path(source_name(name))
    within = source_name(file) if path == outer or not path.is_relative_to(outer) else str(
        path.relative_to(outer))
    parent, slash, _ = within.rpartition("/")
    return parent + slash + source_stem(within)


def file_error(file: str, error: DataError) -> RecordError:
    """Make the fault of a file that of a record, which `reject` can take."""
    told = str(error).removeprefix(source_name(file))
    within = _WITHIN.match(told)
    place = source_name(file) + (within[1] if within else "")
    return RecordError(place, told[within.end() if within else 0:])


def whole_file(name: str, records: int = 1) -> bytes:
    """Read a file whole.

    Args:
        name: of the file; `-` for stdin.
        records: largest records whose size it may have.

    Raises:
        DataError: it is larger.
    """
    with open_bytes(name) as stream:
        return limited_bytes(stream, source_name(name), records=records)


def joined(parts: Iterable[tuple[str, str]]) -> tuple[str, list[JsonObject]]:
    """Join texts by line breaks, and give their labels and offsets, for `meta.sections`."""
    sections, texts, end = list[JsonObject](), list[str](), -1
    for label, text in parts:
        start, end = end + 1, end + 1 + len(text)
        texts.append(text)
        sections.append({"label": label, "start": start, "end": end})
    return "\n".join(texts), sections


def filled(**keys: object) -> JsonObject:
    """Make a document of the keys that have a value."""
    return {key: value for key, value in keys.items() if value}
