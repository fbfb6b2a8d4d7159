"""Records of any source as files that can be read twice, and fast reading of their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from tempfile import NamedTemporaryFile

import msgspec
import numpy as np

from bmtools.errors import Reject
from bmtools.io.jsonl import Block, as_records, decode_objects
from bmtools.io.output import encode_lines
from bmtools.io.parts import rereadable
from bmtools.records import RecordSource

_MARK, _BOM = b"\x1e", b"\xef\xbb\xbf"  # at the start of a line; see `io.sources`


class _Fields(msgspec.Struct):
    id: str
    text: str


_decoder = msgspec.json.Decoder(_Fields)


@contextmanager
def record_files(records: RecordSource, reject: Reject) -> Iterator[list[str]]:
    """Return names of files with the records, which can be read twice until the block ends.

    Args:
        records: one or several files, or dictionaries, which are copied to a temporary file.
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


def read_texts(block: Block, reject: Reject) -> tuple[list[str], list[str], np.ndarray]:
    """Read the ids and texts of a block, and the numbers of their lines.

    If every line has an id and a text, other keys are not read or checked, which saves two thirds
    of the time.

    Args:
        block: block of lines.
        reject: receives bad records.
    """
    read = decode_objects(block.lines, _decoder)
    if read is not None:
        return [one.id for one in read], [one.text for one in read], np.arange(len(read))
    found = list(block.records(reject))
    lines = [*map(block.line_of, found)]
    return [one["id"] for one in found], [one["text"] for one in found], np.array(lines, np.int64)


def as_lines(lines: Sequence[bytes]) -> bytes:
    """Join lines for writing: without marks before them, each with a line end."""
    content = b"".join(lines)
    if content.endswith(b"\n") and _MARK not in content and _BOM[:1] not in content:
        return content  # nearly always
    return b"".join([line.lstrip(_MARK + _BOM).rstrip() + b"\n" for line in lines])
