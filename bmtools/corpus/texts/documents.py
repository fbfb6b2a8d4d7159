"""Documents that are a file each: HTML pages, PDF, EPUB."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.archives import corpus_files, folder_files
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import STDIN, open_bytes, source_name, source_stem
from bmtools.records import Record

Document = dict[str, Any]
_WITHIN = re.compile(r"((?:/[^:]*)?(?::\d+)?): ")  # a file: the name of a part of it, a line


def document_records(names: Iterable[str], endings: Iterable[str],
                     read: Callable[[str, Counter[str]], Document | None], counts: Counter[str],
                     reject: Reject, folder: str = "") -> Iterator[Record]:
    """Yield a record for every file, with the file's name for an id.

    Args:
        names: files, folders and archives; see `corpus_files`.
        endings: of the files that are taken from folders and archives.
        read: returns the keys of a record but for the id; None where there is none to make, which
            it has counted.
        counts: counts what is left out, by reason.
        reject: receives a file that cannot be read.
        folder: that the names were found in, if by `files_in_folders`.
    """
    for name in names:
        for file in corpus_files(name, *endings, counts=counts, folder=folder):
            try:
                document = read(file, counts)
            except DataError as error:
                reject(file_error(file, error))
                continue
            if document is not None:
                yield Record(id=file_id(file, folder or name), **document, place=source_name(file))


def files_in_folders(names: Iterable[str]) -> Iterator[tuple[str, Document]]:
    """Yield the files in folders, each with its `folder`, so that workers can share them.

    Other names, and folders without files, come as they are.
    """
    for name in names:
        found = folder_files(name) if name != STDIN and Path(name).is_dir() else iter(())
        first = next(found, None)
        if first is None:
            yield name, {}
        else:
            yield from ((file, {"folder": name}) for file in chain([first], found))


def file_id(file: str, name: str) -> str:
    """Name a file by its path in the folder or archive that was given, without its endings."""
    path = source_name(file).removeprefix(f"{source_name(name).rstrip('/')}/")
    if file == name:
        return source_stem(file)
    path = path.removesuffix(path[path.rindex("/") + 1:]) + source_stem(path) if "/" in path \
        else source_stem(path)
    return path


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
    chunks, size = [], 0
    with open_bytes(name) as stream:
        while chunk := stream.read(1 << 16):
            chunks.append(chunk)
            size += len(chunk)
            check_record_size(size // records, source_name(name))
    return b"".join(chunks)


def filled(**keys: Any) -> Document:
    """Make a document of the keys that have a value."""
    return {key: value for key, value in keys.items() if value}
