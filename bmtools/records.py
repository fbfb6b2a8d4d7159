"""The JSON Lines records that commands read and write.

A record is a dictionary that stores its origin. Only `id` and `text` are required. Keys that no
command uses are kept in their order, including nested keys. Offsets count code points, and the end
is exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Required, TypedDict

import msgspec

from bmtools.errors import RecordError, Reject

JsonObject = dict[str, Any]
"""A parsed JSON object, such as a line that a command prints."""
RecordSource = str | PathLike[str] | Iterable["str | PathLike[str] | Mapping[str, object]"]
"""One file of records or several, or an iterable of records or dictionaries."""
JsonMapping = Mapping[str, Any]
"""A JSON object that is only read."""
MASK = "[MASK]"
ORIGINS = {"lang": "languages", "licence": "licences"}
"""Keys of records that a checkpoint's manifest and card list, with their names there."""


_PARTS = re.compile(r"(.+?)(?:[-_.]s\d+|#\d+)+(?:-m\d+)?", re.DOTALL)
"""Id of a sentence, passage or masking of a document: DOC-s3, DOC_s3, DOC#120, DOC-s3-m1."""


class Record(dict[str, Any]):
    """One record; `place` is its origin as `file:line`."""

    __slots__ = ("place",)

    def __init__(self, *args: Any, place: str = "<memory>", **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.place = place

    @classmethod
    def read(cls, keys: dict[str, Any], place: str) -> Record:
        """Create a record in half the time of the constructor."""
        record = cls.__new__(cls)
        record.update(keys)
        record.place = place
        return record

    def replace(self, **keys: Any) -> Record:
        """Copy the record with some keys changed; it keeps its place."""
        return Record({**self, **keys}, place=self.place)

    def without(self, *keys: str) -> Record:
        """Copy the record without some keys; it keeps its place."""
        return Record({k: v for k, v in self.items() if k not in keys}, place=self.place)


def full_text(record: Mapping[str, Any]) -> str:
    """Return the input of models: a record's title, if it has one, a line break and its text."""
    return f"{record['title']}\n{record['text']}" if record.get("title") else str(record["text"])


def document_of(record: Mapping[str, Any]) -> str:
    """Return the result of `named_document`, or the record's id if that is None."""
    return named_document(record) or str(record["id"])


def named_document(record: JsonMapping) -> str | None:
    """Return the id of the record's document; sentences of one document are not independent.

    The id is `meta.document`, or the record's id without the sentence's suffix.

    Returns:
        None if the record names no document.
    """
    document = record.get("meta", {}).get("document")
    if document is not None:
        return str(document)
    parts = _PARTS.fullmatch(str(record.get("id")))
    return parts[1] if parts else None


def distinct(records: Iterable[Record], reject: Reject) -> Iterator[Record]:
    """Yield records and reject repeated ids; all ids are kept in memory."""
    places: dict[str, str] = {}
    for record in records:
        if record["id"] in places:
            reject(RecordError(record.place, f"found the id {record['id']!r} again, which "
                               f"{places[record['id']]} has; expected ids that differ", record))
        else:
            places[record["id"]] = record.place
            yield record


class Entity(TypedDict, total=False):
    """A mention; `spans` are parts of a discontinuous mention, from `start` to `end` in total."""

    id: str
    start: Required[int]
    end: Required[int]
    type: Required[str]
    text: str
    spans: list[tuple[int, int]]


class Relation(TypedDict, total=False):
    """A directed relation between two entities, given by their ids."""

    head: Required[str]
    tail: Required[str]
    type: Required[str]


class Answer(TypedDict, total=False):
    """An answer found in the text of the record."""

    text: Required[str]
    start: int
    score: float


class RecordFields(TypedDict, total=False):
    """The keys that commands share, and the types of their values."""

    id: Required[str]
    text: Required[str]
    title: str
    lang: str
    source: str
    licence: str
    text_pair: str
    label: str
    labels: list[str]
    score: float
    entities: list[Entity]
    relations: list[Relation]
    question: str
    answers: list[Answer]
    target: str
    domain: str
    meta: dict[str, Any]


def converted(content: Any, shape: Any, place: str, strict: bool = True) -> Any:
    """Convert parsed JSON to types; without `strict`, also convert text to numbers.

    Raises:
        RecordError: names the key, the value found and the value expected.
    """
    try:
        return msgspec.convert(content, shape, strict=strict)
    except msgspec.ValidationError as error:
        raise RecordError(place, readable(str(error)), content) from None


CHECKED = frozenset(("entities", "relations", "answers", "target"))
"""Keys whose values must agree with other keys; for all other keys the types are enough."""


def check(record: Record) -> None:
    """Raise an error for a record that breaks the format's rules.

    Raises:
        RecordError: names the place, the key, the value found and the value expected.
    """
    converted(record, RecordFields, record.place)
    text, entities = record["text"], record.get("entities", ())
    faults = [fault for number, entity in enumerate(entities)
              for fault in span_faults(text, entity, f"entities[{number}]")]
    ids = {entity.get("id") for entity in entities}
    faults += [f"key 'relations[{number}].{role}': found {relation[role]!r}, "
               "expected the id of one of the record's entities"
               for number, relation in enumerate(record.get("relations", ()))
               for role in ("head", "tail") if relation[role] not in ids]
    for number, answer in enumerate(record.get("answers", ())):
        start = answer.get("start")
        if start is not None and not text.startswith(answer["text"], max(start, 0)):
            found = text[start:start + len(answer["text"])] if start >= 0 else ""
            faults.append(f"key 'answers[{number}].start': found {found!r} at {start}, "
                          f"expected {answer['text']!r}")
    if "target" in record and text.count(MASK) != 1:
        faults.append(f"key 'text': found {text.count(MASK)} {MASK} with a target, "
                      "expected exactly one")
    if not record.get("target", MASK).strip():
        faults.append("key 'target': found an empty text, expected the masked word")
    if faults:
        raise RecordError(record.place, faults[0], record)


def passes_check(record: Record, reject: Reject) -> bool:
    """Return whether a record follows the format's rules; reject it if not."""
    try:
        check(record)
    except RecordError as error:
        reject(error)
        return False
    return True


def readable(message: str) -> str:
    """Convert msgspec's path notation to `key: found ..., expected ...`; keep other messages."""
    if message.startswith("Object missing required field `"):
        field, _, path = message.removeprefix("Object missing required field `").partition("`")
        where = path.removeprefix(" - at `$.").rstrip("`")
        return f"key '{where + '.' if where else ''}{field}' is missing"
    what, _, path = message.partition(" - at `$")
    expected, got, found = what.removeprefix("Expected ").partition(", got ")
    if not got:
        return message
    return f"key '{path.strip('.`')}': found {_in_words(found)}, expected {_in_words(expected)}"


def _in_words(types: str) -> str:
    """Name types in plain English: "`int | null`" becomes "a whole number or null"."""
    names = {"str": "text", "int": "a whole number", "float": "a number", "object": "an object",
             "array": "a list", "bool": "true or false"}
    kinds, of, length = types.partition(" of length ")
    return " or ".join(names.get(one, one) for one in kinds.strip("`").split(" | ")) + of + length


def span_faults(text: str, entity: Mapping[str, Any], key: str) -> Iterator[str]:
    """Yield faults of an entity's offsets in a text and of its `text`."""
    start, end = entity["start"], entity["end"]
    if not 0 <= start < end <= len(text):
        yield (f"key '{key}': found start {start} and end {end}, expected offsets within the "
               f"text of {len(text)} characters")
        return
    spans = entity.get("spans")
    if spans:
        if any(not start <= first < last <= end for first, last in spans):
            yield f"key '{key}.spans': found {spans}, expected parts within {start} to {end}"
    elif "text" in entity and text[start:end] != entity["text"]:
        yield (f"key '{key}.text': found {entity['text']!r}, but the text has "
               f"{text[start:end]!r} at {start} to {end}")
