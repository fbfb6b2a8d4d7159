"""JSON Lines of other forms than records, object by object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.folders import whole_json
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import read_lines, source_name, source_stem
from bmtools.records import readable

# First line of a file that is one object, or a list of them.
_WHOLE = re.compile(r"\s*([{\[]\s*$|\[\s*\{)")


def json_objects(names: Iterable[str], shape: Any,
                 reject: Reject) -> Iterator[tuple[str, str, Any]]:
    """Yield the objects of JSON Lines, each after the id `STEM:LINE` and its place.

    A file may also be one object, or a list of objects, over several lines; then the number is
    that of the object.

    Args:
        names: files, compressed or not; `-` for stdin.
        shape: type of an object.
        reject: receives lines that are no object, or one of another type.
    """
    decode = msgspec.json.Decoder(shape).decode
    for name in names:
        lines = ((number, line) for number, line in read_lines(name) if line.strip())
        first = list(islice(lines, 1))
        if first and _WHOLE.match(first[0][1]):
            first = _held(name, chain(first, lines))
            if (found := _whole(first, name)) is not None:
                yield from _converted(found, name, shape, reject)
                continue
        for number, line in chain(first, lines):
            place = f"{source_name(name)}:{number}"
            try:
                content = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                reject(RecordError(place, _fault(line, error), line))
                continue
            yield f"{source_stem(name)}:{number}", place, content


def _held(name: str, lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    held, size = [], 0
    for number, line in lines:
        held.append((number, line))
        size += len(line)
        check_record_size(size, source_name(name))
    return held


def _whole(lines: list[tuple[int, str]], name: str) -> list[Any] | None:
    """Parse a file that is one object, or a list of them; None where it is neither."""
    try:
        content = whole_json("\n".join(line for _, line in lines), name, "objects")
    except DataError:
        return None
    return content if isinstance(content, list) else [content]


def _converted(found: list[Any], name: str, shape: Any,
               reject: Reject) -> Iterator[tuple[str, str, Any]]:
    for number, one in enumerate(found, 1):
        place = f"{source_name(name)} ({number})"
        try:
            yield f"{source_stem(name)}:{number}", place, msgspec.convert(one, shape)
        except msgspec.ValidationError as error:
            reject(RecordError(place, readable(str(error)), one))


def _fault(line: str, error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError) and not str(error).startswith(
            "Expected `object`"):
        return readable(str(error))
    return f"found {line.strip()[:40]!r} ({error}), expected a JSON object on one line"
