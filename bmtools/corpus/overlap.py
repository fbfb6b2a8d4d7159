"""Overlap of the parts of a set in documents, texts and questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from bmtools.errors import count_of
from bmtools.records import JsonObject, document_of

PARTS = ("train", "dev", "test")
SHARED = ("documents", "texts", "questions")
"""What parts are compared by."""
_MOST_SHARED = 4
Keys = tuple[str, ...]
"""Document, text and question of a record, as they are compared."""


def keys_of(record: JsonObject) -> Keys:
    """Return what two records must have in common to share a document, a text or a question."""
    return document_of(record), text_key(record), folded(record.get("question", ""))


def text_key(record: JsonObject) -> str:
    """Return what two records must share to have the same text: title, text and pair, folded."""
    return "\n".join(filter(None, (folded(record.get(key) or "")
                                   for key in ("title", "text", "text_pair"))))


def folded(text: str) -> str:
    """Fold case and white space."""
    return " ".join(text.casefold().split())


def overlaps(parts: Mapping[str, Iterable[JsonObject]],
             folds: bool = False) -> Iterator[JsonObject]:
    """Compare the parts of a set with each other.

    Yields for each two parts how many records of the later one were `compared`, and how many of
    them have a document, a text or a question that the earlier one has, too; of folds, that any
    other fold has. Case and white space
    of texts make no difference; a text is one with its pair.

    Args:
        parts: records by the names of their parts.
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
    """Describe what parts share, from the lines of overlaps; empty if nothing."""
    shared = [f"{line['of']} shares {what} with {line['in']} ({count_of(line[what], 'records')})"
              for line in overlaps for what in SHARED if line[what]]
    if len(shared) > _MOST_SHARED:
        shared = [*shared[:_MOST_SHARED], f"{len(shared) - _MOST_SHARED} more in the report"]
    return ", ".join(shared)
