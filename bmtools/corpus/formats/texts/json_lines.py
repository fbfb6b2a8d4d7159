"""JSON Lines made by other programs: objects of any type, or texts under other keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Required, TypedDict, TypeVar

import msgspec

from bmtools.corpus.formats.sets.conll import TAG, tag_entities
from bmtools.corpus.formats.sets.mentions import IDENTIFIER, Arc, Mention, Span, annotated
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
# First line of a file that is one object or a list of objects.
_WHOLE = re.compile(r"\s*([{\[]\s*$|\[\s*\{)")
LAYOUTS = ("tokens", "passages", "correct_answers")
"""Keys of objects whose text is in tokens, in BigBIO's passages, or in choices."""
_TAGS = ("ner_tags", "pos_tags", "tags")
_ANSWER = "answer_"
_Text = str | list[str]


class _Passage(TypedDict):
    text: _Text
    offsets: list[Span]


class _Entity(TypedDict, total=False):
    id: str | int
    type: Required[str]
    text: Required[_Text]
    offsets: Required[list[Span]]
    normalized: list[JsonObject]


class _Relation(TypedDict):
    type: str
    arg1_id: str
    arg2_id: str


class _Document(TypedDict, total=False):
    document_id: Required[str]
    passages: Required[list[_Passage]]
    entities: list[_Entity]
    relations: list[_Relation]


def json_objects(names: Iterable[str], shape: type[Shape],
                 reject: Reject) -> Iterator[tuple[str, str, Shape]]:
    """Yield the objects of JSON Lines, each with the id `STEM:LINE` and its place.

    A file may also be one object or a list of objects on several lines. Then the number is the
    number of the object.

    Args:
        names: files, compressed or not; `-` for stdin.
        shape: type of an object.
        reject: receives lines that are not an object of this type.
    """
    decode = msgspec.json.Decoder(shape).decode
    for name in names:
        stem, source = source_stem(name), source_name(name)
        lines = ((number, line) for number, line in read_lines(name) if line.strip())
        first = list(islice(lines, 1))
        if first and _WHOLE.match(first[0][1]):
            held, size = [], 0
            for _, line in chain(first, lines):
                held.append(line)
                size += len(line)
                check_record_size(size, source)
            found = whole_json("\n".join(held), name, "objects")
            for number, one in enumerate(found if isinstance(found, list) else [found], 1):
                place = f"{source} ({number})"
                with Tally(None, reject).rejecting():
                    yield f"{stem}:{number}", place, converted(one, shape, place)
            continue
        for number, line in chain(first, lines):
            place = f"{source}:{number}"
            try:
                content = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                reject(RecordError(place, _fault(line, error), line))
                continue
            yield f"{stem}:{number}", place, content


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
    """Yield the objects of other programs' JSON Lines under the keys of records.

    Whole numbers in `id` and `label` become text, a missing id becomes `STEM:LINE`, nulls under
    keys of records are left out, and every other key is kept. If another key replaces the value of
    a record key, the old value moves to `other_KEY`. If the text key is missing, three layouts are
    read:

    - `tokens`, joined by spaces, whose `ner_tags`, `pos_tags` or `tags` become entities
    - BigBIO's `passages`, `entities` and `relations`
    - a question with choices, whose `correct_answers` become `labels`, and their number the `label`

    Args:
        names: files of JSON objects, one per line; `-` for stdin.
        columns: keys of the source by record key, see `read_columns`.
        tally: counts the ids that were assigned.
            It rejects a line that is not an object or has no text.
    """
    return agreed_records(json_objects(names, JsonObject, tally.reject), read_columns(columns),
                          tally)


def agreed_records(objects: Iterable[tuple[str, str, JsonObject]], columns: Mapping[str, str],
                   tally: Tally) -> Iterator[Record]:
    """Yield records as in `jsonl_records`, from triples of a default id, a place and an object."""
    names = {"id": "id", "text": "text", **columns}
    for own_id, place, content in objects:
        with tally.rejecting():
            content = _with_text(content, names["text"], place, tally)
            record = _with_agreed_keys(Record(content, place=place), names)
            if record.get("id") is None:
                tally.counts["ids assigned as STEM:LINE"] += 1
                record["id"] = own_id
            yield record


def _with_agreed_keys(record: Record, names: Mapping[str, str]) -> Record:
    """Rename the named keys to keys of records and put them first; other keys keep their order."""
    agreed: JsonObject = {}
    for key, name in names.items():
        agreed[key] = record.get(name)
        if (name not in record and key != "id") or (
                key == "text" and not isinstance(agreed[key], str)):
            found = repr(record[name])[:40] if name in record else "no such key"
            raise RecordError(record.place, f"key '{name}': found {found}, expected "
                              f"{'text' if key == 'text' else f'the {key}'}; "
                              f"name its key with {setting('columns')}", record)
    if "document" in agreed:
        agreed["meta"] = {"document": str(agreed.pop("document"))}
    for key, value in record.items():
        if key not in names.values() and (value is not None or key not in _KNOWN):
            agreed[f"other_{key}" if key in agreed else key] = value
    for key in ("id", "label"):
        if isinstance(agreed.get(key), int) and not isinstance(agreed[key], bool):
            agreed[key] = str(agreed[key])
    return Record({key: value for key, value in agreed.items()
                   if key == "id" or value is not None or key not in _KNOWN}, place=record.place)


def _with_text(content: JsonObject, text_key: str, place: str, tally: Tally) -> JsonObject:
    """Return an object with its text; see `jsonl_records`."""
    key = next((one for one in (text_key, *LAYOUTS) if one in content), text_key)
    if isinstance(content.get(key), list) and key not in LAYOUTS[1:]:
        return _joined(content, key, text_key, place, tally.counts)
    if key == "passages":
        return _of_bigbio(content, text_key, place, tally)
    if key != "correct_answers":
        return content
    choices = content.get("answers") or {
        name.removeprefix(_ANSWER): value for name, value in content.items()
        if name.startswith(_ANSWER)}
    if not isinstance(choices, dict) or not isinstance(content[key], list):
        raise RecordError(place, "found correct_answers that is not a list, or no answers by "
                                 "letter, expected both", content)
    others = {name: value for name, value in content.items()
              if name not in ("question", "answers", key) and not name.startswith(_ANSWER)}
    lines = [str(content.get("question", "")), *(
        f"({letter}) {answer}" for letter, answer in choices.items())]
    return {**others, text_key: "\n".join(lines), "labels": content[key],
            "label": str(len(content[key]))}


def _joined(content: JsonObject, source_key: str, text_key: str, place: str,
            counts: Counter[str]) -> JsonObject:
    """Join tokens by spaces, and make entities from their tags, if there are any.

    Raises:
        RecordError: a token is not text, or the tags do not fit.
    """
    tokens = content[source_key]
    tag_key = next((key for key in _TAGS if key in content), _TAGS[0])
    tags = content.get(tag_key)
    matches = [TAG.fullmatch(str(tag)) for tag in tags or ()]
    if not all(isinstance(token, str) for token in tokens) or not all(matches) or (
            tags and len(tags) != len(tokens)):
        raise RecordError(place, f"found {tokens!r:.60} with {tag_key} {tags!r:.60}, expected a "
                          "tag for each token, O or B-TYPE and I-TYPE, as text or by names of "
                          "classes", content)
    text = " ".join(tokens)
    rows = [(token, match[1], match[2]) for token, match in zip(tokens, matches, strict=False)
            if match]
    others = {key: value for key, value in content.items() if key not in (source_key, tag_key)}
    entities = {"entities": tag_entities(rows, text, "ENTITY", counts)} if tags is not None else {}
    return {**others, text_key: text, **entities}


def _of_bigbio(content: JsonObject, text_key: str, place: str, tally: Tally) -> JsonObject:
    """Put passages at their offsets, and locate the mentions of BigBIO's entities."""
    document: _Document = converted(content, _Document, place, strict=False)
    passages, entities = document["passages"], document.get("entities", [])
    if not all(one["offsets"] for one in (*passages, *entities)):
        raise RecordError(place, "found a passage or an entity without offsets, expected pairs of "
                                 "numbers", content)
    text, mentions = "", []
    for passage in passages:
        start = passage["offsets"][0][0]
        check_record_size(start, place)
        text = text.ljust(start) + _plain(passage["text"])
    for number, one in enumerate(entities, 1):
        codes = [str(code["db_id"]) for code in one.get("normalized", ()) if code.get("db_id")]
        mentions.append(Mention(
            one["type"], tuple(one["offsets"]), _plain(one["text"]),
            str(one.get("id", f"T{number}")), {IDENTIFIER: "|".join(codes)} if codes else {},
            place, one))
    arcs = [Arc(one["arg1_id"], one["arg2_id"], one["type"], {}, place, one)
            for one in document.get("relations", ())]
    record = annotated(document["document_id"], text, mentions, arcs, tally, place)
    return {text_key: record.pop("text"), **record}


def _plain(text: _Text) -> str:
    return text if isinstance(text, str) else " ".join(text)
