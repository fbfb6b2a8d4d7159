"""JSON Lines made elsewhere: other key names, numbers for ids, ids left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from bmtools.corpus.formats.sets.json_lines import json_objects
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record, RecordFields

_KNOWN = frozenset(RecordFields.__annotations__)


def jsonl_records(names: Iterable[str], id_key: str = "id", text_key: str = "text",
                  counts: Counter[str] | None = None,
                  reject: Reject = refuse) -> Iterator[Record]:
    """Yield the objects of foreign JSON Lines under the keys that commands agree on.

    Whole numbers in `id` and `label` become text, a missing id becomes `STEM:LINE`, nulls under
    agreed keys are left out, and every other key passes through. A value under `id` or `text` that
    another key replaces moves to `other_id` or `other_text`.

    Args:
        names: files of JSON objects, one a line; `-` for stdin.
        id_key: key of the id.
        text_key: key of the text.
        counts: counts the ids that were given.
        reject: receives a line that is no object, or one without text.
    """
    return agreed_records(json_objects(names, dict[str, Any], reject), id_key, text_key,
                          Counter() if counts is None else counts, reject)


def agreed_records(objects: Iterable[tuple[str, str, dict[str, Any]]], id_key: str, text_key: str,
                   counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Yield objects as `jsonl_records` does, each given after an own id and its place."""
    for own_id, place, content in objects:
        try:
            record = _with_agreed_keys(Record(content, place=place), id_key, text_key)
        except RecordError as error:
            reject(error)
            continue
        if record.get("id") is None:
            counts["ids given, as STEM:LINE"] += 1
            record["id"] = own_id
        yield record


def _with_agreed_keys(record: Record, id_key: str, text_key: str) -> Record:
    """Put id and text first under their agreed keys; the rest follows in its order."""
    if not isinstance(record.get(text_key), str):
        found = repr(record[text_key])[:40] if text_key in record else "no such key"
        raise RecordError(record.place, f"key '{text_key}': found {found}, expected text; "
                                        f"{setting('text_key')} names its key",
                          record)
    agreed: dict[str, Any] = {"id": record.get(id_key), "text": record[text_key]}
    for key, value in record.items():
        if key in (id_key, text_key) or (value is None and key in _KNOWN):
            continue
        agreed[f"other_{key}" if key in ("id", "text") else key] = value
    for key in ("id", "label"):
        if isinstance(agreed.get(key), int) and not isinstance(agreed[key], bool):
            agreed[key] = str(agreed[key])
    return Record(agreed, place=record.place)
