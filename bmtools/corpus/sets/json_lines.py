"""JSON Lines of other forms than records, object by object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bmtools.errors import RecordError, Reject
from bmtools.io.jsonl import read_lines, source_name, source_stem
from bmtools.records import readable


def json_objects(names: Iterable[str], shape: Any,
                 reject: Reject) -> Iterator[tuple[str, str, Any]]:
    """Yield the objects of JSON Lines, each after the id `STEM:LINE` and its place.

    Args:
        names: files, compressed or not; `-` for stdin.
        shape: type of an object.
        reject: receives lines that are no object, or one of another type.
    """
    decode = msgspec.json.Decoder(shape).decode
    for name in names:
        for number, line in read_lines(name):
            if not line.strip():
                continue
            place = f"{source_name(name)}:{number}"
            try:
                content = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                reject(RecordError(place, _fault(line, error), line))
                continue
            yield f"{source_stem(name)}:{number}", place, content


def _fault(line: str, error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError) and not str(error).startswith(
            "Expected `object`"):
        return readable(str(error))
    return f"found {line.strip()[:40]!r} ({error}), expected a JSON object on one line"
