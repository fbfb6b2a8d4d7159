"""Overlap of the parts of a set in documents, texts and questions; the part that a file is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
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
_PART = re.compile(r"(?<![a-z])(?i:(?P<train>train(?:ing)?)|(?P<test>test(?:ing)?)|"
                   r"(?P<dev>dev(?:el(?:opment)?)?|val(?:id(?:ation)?)?))(?i:set)?(?![A-Za-z])")


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


class Overlap:
    """Counts of the records of a part whose document, text or question another part has, too.

    Args:
        of: name of the part.
        other: name of the other part.
        known: the other part's records.
    """

    def __init__(self, of: str, other: str, known: Iterable[Keys]) -> None:
        self._names = {"of": of, "in": other}
        self._known: dict[str, set[str]] = {what: set() for what in SHARED}
        self._counts = dict.fromkeys(("records", *SHARED), 0)
        for keys in known:
            for key, seen in zip(keys, self._known.values(), strict=True):
                seen.add(key)
        for seen in self._known.values():
            seen.discard("")

    def add(self, keys: Keys) -> None:
        """Compare a record of the part."""
        self._counts["records"] += 1
        for key, (what, seen) in zip(keys, self._known.items(), strict=True):
            self._counts[what] += key in seen

    def line(self) -> JsonObject:
        """Return the names of both parts and the counts."""
        return {**self._names, **self._counts}


def overlaps(parts: Mapping[str, Iterable[JsonObject]],
             folds: bool = False) -> Iterator[JsonObject]:
    """Compare the parts of a set with each other.

    Yields for each two parts how many records of the later one have a document, a text or a
    question that the earlier one has, too; of folds, that any other fold has. Case and white space
    of texts make no difference; a text is one with its pair.

    Args:
        parts: records by the names of their parts.
        folds: compare each part with all others at once.
    """
    return overlaps_of_keys({name: list(map(keys_of, own)) for name, own in parts.items()}, folds)


def overlaps_of_keys(parts: Mapping[str, list[Keys]], folds: bool = False) -> Iterator[JsonObject]:
    """Compare the parts of a set by what `keys_of` returns; see `overlaps`."""
    pairs = [(second, first, parts[first]) for first, second in combinations(parts, 2)]
    if folds:
        pairs = [(name, "the other folds", [keys for other, own in parts.items() if other != name
                                            for keys in own]) for name in parts]
    for name, other, known in pairs:
        overlap = Overlap(name, other, known)
        for keys in parts[name]:
            overlap.add(keys)
        yield overlap.line()


@lru_cache(maxsize=256)
def part_of(path: str) -> tuple[str, str]:
    """Find the part of a set that a path names, as `DDICorpus/Train/1.xml` does.

    Returns:
        train, dev or test, and the path up to that name; both empty where it names none.
    """
    names = path.split("/")
    for number in reversed(range(len(names))):
        found = list(_PART.finditer(names[number]))
        if found:
            return found[-1].lastgroup or "", "/".join(names[:number + 1])
    return "", ""


def describe_shared(overlaps: Sequence[Mapping[str, Any]]) -> str:
    """Describe what parts share, from the lines of overlaps; empty if nothing."""
    shared = [f"{line['of']} shares {count_of(line[what], what)} with {line['in']}"
              for line in overlaps for what in SHARED if line[what]]
    if len(shared) > _MOST_SHARED:
        shared = [*shared[:_MOST_SHARED], f"{len(shared) - _MOST_SHARED} more in the report"]
    return ", ".join(shared)
