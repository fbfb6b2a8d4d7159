"""Documents, texts and questions that the parts of a set have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from bmtools.errors import count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record, document_of

PARTS = ("train", "dev", "test")
SHARED = ("documents", "texts", "questions")
"""Kinds of content that two parts may share."""
_MOST_SHARED = 4
Keys = tuple[str, ...]
"""Document, text and question of a record, in the form in which they are compared."""


def by_file(records: RecordReader) -> dict[str, list[Record]]:
    """Read the records of each file."""
    parts: dict[str, list[Record]] = {source_name(name): [] for name in records.names}
    for record in records:
        parts[record.place.rpartition(":")[0]].append(record)
    return parts


def keys_of(record: JsonObject) -> Keys:
    """Return the keys that are equal if two records share a document, a text or a question."""
    return document_of(record), text_key(record), folded(record.get("question", ""))


def text_key(record: JsonObject) -> str:
    """Return the key that is equal for records with the same title, text and pair after folding."""
    return "\n".join(filter(None, (folded(record.get(key) or "")
                                   for key in ("title", "text", "text_pair"))))


def folded(text: str) -> str:
    """Fold case and white space."""
    return " ".join(text.casefold().split())


def overlaps(parts: Mapping[str, Iterable[JsonObject]],
             folds: bool = False) -> Iterator[JsonObject]:
    """Compare the parts of a set with each other.

    Yield a line for each pair of parts: how many records of the later part were `compared`, and how
    many of them share a document, a text or a question with the earlier part. A fold is compared
    with all other folds. Case and white space are ignored. A text and its pair are compared
    together.

    Args:
        parts: records by part name.
        folds: compare each part with all others at once.
    """
    keys = {name: list(map(keys_of, own)) for name, own in parts.items()}
    pairs = [(second, first, keys[first]) for first, second in combinations(keys, 2)]
    if folds:
        pairs = [(name, "the other folds", [one for other, own in keys.items() if other != name
                                            for one in own]) for name in keys]
    for name, other, known in pairs:
        line: JsonObject = {"of": name, "in": other, "compared": len(keys[name])}
        for number, what in enumerate(SHARED):
            seen = {one[number] for one in known} - {""}
            line[what] = sum(one[number] in seen for one in keys[name])
        yield line


def describe_shared(overlaps: Sequence[Mapping[str, Any]]) -> str:
    """Describe the shared content from the lines of `overlaps`; empty if there is none."""
    shared = [f"{line['of']} shares {what} with {line['in']} ({count_of(line[what], 'records')})"
              for line in overlaps for what in SHARED if line[what]]
    if len(shared) > _MOST_SHARED:
        shared = [*shared[:_MOST_SHARED], f"{len(shared) - _MOST_SHARED} more in the report"]
    return ", ".join(shared)
