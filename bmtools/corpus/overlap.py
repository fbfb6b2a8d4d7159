"""Overlap of the parts of a set in documents, texts and questions; the part that a file is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Any

from bmtools.records import Record, document_of

PARTS = ("train", "dev", "test")
SHARED = ("documents", "texts", "questions")
"""What parts are compared by."""
Keys = tuple[str, ...]
"""Document, text and question of a record, as they are compared."""
_PART = re.compile(r"(?<![a-z])(?i:(?P<train>train(?:ing)?)|(?P<test>test(?:ing)?)|"
                   r"(?P<dev>dev(?:el(?:opment)?)?|val(?:id(?:ation)?)?))(?i:set)?(?![A-Za-z])")
_LINE_OR_ID = re.compile(r"(?::\d+| \([^/]*\))$")
_TASKS = {"target": "mrr", "answers": "qa", "labels": "multilabel", "text_pair": "similarity",
          "relations": "relations", "entities": "ner"}
_ANNOTATIONS = frozenset((*_TASKS, "label"))


def keys_of(record: Mapping[str, Any]) -> Keys:
    """Return what two records must have in common to share a document, a text or a question."""
    return document_of(record), text_key(record), folded(record.get("question", ""))


def text_key(record: Mapping[str, Any]) -> str:
    """Return what two records must share to have the same text: title, text and pair, folded."""
    return "\n".join(filter(None, (folded(record.get(key) or "")
                                   for key in ("title", "text", "text_pair"))))


def folded(text: str) -> str:
    """Fold case and white space."""
    return " ".join(text.casefold().split())


def is_annotated(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has an annotation."""
    return not _ANNOTATIONS.isdisjoint(record)


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

    def line(self) -> dict[str, Any]:
        """Return the names of both parts and the counts."""
        return {**self._names, **self._counts}


def overlaps(parts: Mapping[str, Iterable[Mapping[str, Any]]],
             folds: bool = False) -> Iterator[dict[str, Any]]:
    """Compare the parts of a set with each other.

    Yields for each two parts how many records of the later one have a document, a text or a
    question that the earlier one has, too; of folds, that any other fold has. Case and white space
    of texts make no difference; a text is one with its pair.

    Args:
        parts: records by the names of their parts.
        folds: compare each part with all others at once.
    """
    return _overlaps({name: list(map(keys_of, own)) for name, own in parts.items()}, folds)


def _overlaps(parts: Mapping[str, list[Keys]], folds: bool = False) -> Iterator[dict[str, Any]]:
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


class SetSeen:
    """Task and parts of an imported set, and the overlap of these with each other and with others.

    Records without an annotation are no set, and nothing of them is kept.

    Args:
        against: parts that records are compared with as they pass.
    """

    def __init__(self, against: Iterable[Overlap] = ()) -> None:
        self._against = list(against)
        self._found: set[str] = set()
        self._parts: dict[str, list[Keys]] = defaultdict(list)
        self._paths: dict[str, str] = {}

    def passing(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield records, after a look at each."""
        for record in records:
            if self.compares or is_annotated(record):
                self.look_at(record)
            yield record

    def look_at(self, record: Record) -> None:
        """Look at a record; at one without annotation there is something to see if it compares."""
        keys = keys_of(record)
        for overlap in self._against:
            overlap.add(keys)
        if not is_annotated(record):
            return
        self._found.update(key for key in record if record[key] or key == "answers")
        part, path = part_of(_LINE_OR_ID.sub("", record.place))
        if part:
            self._parts[part].append(keys)
            self._paths.setdefault(part, path)

    @property
    def compares(self) -> bool:
        """Whether records are compared with those of other parts."""
        return bool(self._against)

    @property
    def task(self) -> str:
        """The task whose examples the records are, or mrr; empty where there is none."""
        if "label" in self._found:
            return "yesno" if "question" in self._found else \
                "nli" if "text_pair" in self._found else "classification"
        return next((task for key, task in _TASKS.items() if key in self._found), "")

    @property
    def parts(self) -> dict[str, tuple[int, str]]:
        """The parts by their names, where there are several: their records and paths."""
        found = {part: (len(self._parts[part]), self._paths[part]) for part in self._in_order()}
        return found if len(found) > 1 else {}

    def overlaps(self) -> list[dict[str, Any]]:
        """Return what the parts share with each other and with those that are compared."""
        return [*_overlaps({part: self._parts[part] for part in self._in_order()}),
                *(overlap.line() for overlap in self._against)]

    def _in_order(self) -> list[str]:
        return [part for part in PARTS if part in self._parts]
