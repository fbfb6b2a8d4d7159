"""JSON Lines made elsewhere: of any type, or texts under other keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeVar

import msgspec

from bmtools.corpus.formats.settings import read_columns
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError, Reject, setting
from bmtools.io.folders import whole_json
from bmtools.io.jsonl import too_large
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import read_lines, source_name, source_stem
from bmtools.records import JsonObject, Record, RecordFields, converted, readable

Shape = TypeVar("Shape")
_KNOWN = frozenset(RecordFields.__annotations__)
# First line of a file that is one object, or a list of them.
_WHOLE = re.compile(r"\s*([{\[]\s*$|\[\s*\{)")


def json_objects(names: Iterable[str], shape: type[Shape],
                 reject: Reject) -> Iterator[tuple[str, str, Shape]]:
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
            held, size = [], 0
            for _, line in chain(first, lines):
                held.append(line)
                size += len(line)
                check_record_size(size, source_name(name))
            found = whole_json("\n".join(held), name, "objects")
            for number, one in enumerate(found if isinstance(found, list) else [found], 1):
                place = f"{source_name(name)} ({number})"
                with Tally(None, reject).rejecting():
                    yield f"{source_stem(name)}:{number}", place, converted(one, shape, place)
            continue
        for number, line in chain(first, lines):
            place = f"{source_name(name)}:{number}"
            try:
                content = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                reject(RecordError(place, _fault(line, error), line))
                continue
            yield f"{source_stem(name)}:{number}", place, content


def _fault(line: str, error: Exception) -> str:
    if fault := too_large(line, error):
        return fault
    if isinstance(error, msgspec.ValidationError) and not str(error).startswith(
            "Expected `object`"):
        return readable(str(error))
    return f"found {line.strip()[:40]!r} ({error}), expected a JSON object on one line"


@reader
def jsonl_records(names: Iterable[str], tally: Tally,
                  columns: str = "id=id,text=text") -> Iterator[Record]:
    """Yield the objects of foreign JSON Lines under the keys that commands agree on.

    Whole numbers in `id` and `label` become text, a missing id becomes `STEM:LINE`, nulls under
    agreed keys are left out, and every other key passes through. A value under `id` or `text` that
    another key replaces moves to `other_id` or `other_text`.

    Args:
        names: files of JSON objects, one a line; `-` for stdin.
        columns: keys of the id and the text, see `read_columns`.
        tally: counts the ids that were given.
            It rejects a line that is no object, or one without text.
    """
    return agreed_records(json_objects(names, JsonObject, tally.reject), read_columns(columns),
                          tally)


def agreed_records(objects: Iterable[tuple[str, str, JsonObject]], columns: Mapping[str, str],
                   tally: Tally) -> Iterator[Record]:
    """Yield objects as `jsonl_records` does, each given after an own id and its place."""
    for own_id, place, content in objects:
        with tally.rejecting():
            record = _with_agreed_keys(Record(content, place=place), columns.get("id", "id"),
                                       columns.get("text", "text"))
            if record.get("id") is None:
                tally.counts["ids given, as STEM:LINE"] += 1
                record["id"] = own_id
            yield record


def _with_agreed_keys(record: Record, id_key: str, text_key: str) -> Record:
    """Put id and text first under their agreed keys; the rest follows in its order."""
    if not isinstance(record.get(text_key), str):
        found = repr(record[text_key])[:40] if text_key in record else "no such key"
        raise RecordError(record.place, f"key '{text_key}': found {found}, expected text; "
                                        f"{setting('columns')} names its key",
                          record)
    agreed: JsonObject = {"id": record.get(id_key), "text": record[text_key]}
    for key, value in record.items():
        if key in (id_key, text_key) or (value is None and key in _KNOWN):
            continue
        agreed[f"other_{key}" if key in ("id", "text") else key] = value
    for key in ("id", "label"):
        if isinstance(agreed.get(key), int) and not isinstance(agreed[key], bool):
            agreed[key] = str(agreed[key])
    return Record(agreed, place=record.place)
