"""Records of any source as files, for functions that read them twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from tempfile import NamedTemporaryFile

from bmtools.errors import Reject
from bmtools.io.jsonl import as_records
from bmtools.io.output import encode_lines
from bmtools.io.spool import rereadable
from bmtools.records import RecordSource


@contextmanager
def record_files(records: RecordSource, reject: Reject) -> Iterator[list[str]]:
    """Return names of files with the records, which can be read twice, until the block ends.

    Args:
        records: a file or several, or dictionaries, which are copied to a temporary file.
        reject: receives bad records.
    """
    items = iter([records] if isinstance(records, str | PathLike) else records)
    first = next(items, {})
    if isinstance(first, str | PathLike):
        with rereadable([str(first), *map(str, items)]) as names:
            yield names
        return
    given = chain([first] if first else [], items)
    with NamedTemporaryFile(suffix=".jsonl") as file:
        file.writelines(encode_lines([record]) for record in as_records(given, reject))
        file.flush()
        yield [file.name]
