"""BioC, in XML and JSON: passages with annotations, relations of them or of their concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Required, TypedDict

from bmtools.corpus.formats.sets.mentions import (
    IDENTIFIER,
    RELATIONS_LOST,
    Arc,
    Mention,
    Span,
    concept_relations,
    entities,
    relations,
)
from bmtools.corpus.formats.settings import MentionPairs
from bmtools.corpus.formats.tally import Tally
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.folders import read_json, set_files
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record, converted

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MOST_RECORDS = 8
# Names of the infon that holds a concept: BioRED and PubTator, BC5CDR, gene sets.
_CONCEPTS = (IDENTIFIER, "Identifier", "MESH", "NCBI Gene", "NCBIGENE")


class _Location(TypedDict):
    offset: int
    length: int


class _Annotation(TypedDict, total=False):
    id: str | int
    infons: dict[str, object]
    text: str | None
    locations: Required[list[_Location]]


class _Node(TypedDict, total=False):
    refid: Required[str | int]
    role: str


class _Relation(TypedDict, total=False):
    id: str | int
    infons: dict[str, object]
    nodes: list[_Node]


class _Part(TypedDict, total=False):
    """A passage or a sentence; a passage has a text or sentences."""

    infons: dict[str, object]
    offset: Required[int]
    text: str | None
    sentences: list[_Part]
    annotations: list[_Annotation]
    relations: list[_Relation]


class _Document(TypedDict, total=False):
    id: Required[str | int]
    passages: Required[list[_Part]]
    annotations: list[_Annotation]
    relations: list[_Relation]


def bioc_records(names: Iterable[str], pairs: MentionPairs = "closest",
                 counts: Counter[str] | None = None, reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every document of XML.

    The passages, or sentences where these hold the text, are joined by a blank, and
    `meta.sections` has their offsets. Relations are between annotations, by their ids, or between
    concepts, as in BioRED and BC5CDR; which mentions stand for them is a matter of `pairs`.
    Further infons of an annotation stay under `infons`.

    Source: Comeau et al. 2013.

    Args:
        names: files, folders or zip archives; `-` for stdin.
        pairs: see `concept_relations`.
        counts: counts annotations at their offset, moved and lost, and relations lost.
        reject: receives documents that cannot be read, and what is lost, which otherwise is
            dropped.
    """
    tally = Tally(counts, reject)
    for name in set_files(names, ".xml", ".bioc"):
        for element in xml_elements(name, ("collection",), ("document",)):
            place = f"{source_name(name)}:{element.sourceline}"
            yield from _checked(_from_xml(element), place, pairs, tally)


def bioc_json_records(names: Iterable[str], pairs: MentionPairs = "closest",
                      counts: Counter[str] | None = None,
                      reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every document of JSON; see `bioc_records`.

    A file holds a collection, `documents` or PubTator's `PubTator3`, or a document alone, and is
    held in memory.
    """
    tally = Tally(counts, reject)
    for name in set_files(names, ".json"):
        content = read_json(name, "BioC's documents", records=_MOST_RECORDS)
        if content is None:
            continue
        found = content if isinstance(content, dict) else {}
        documents = [found] if "passages" in found else found.get("documents",
                                                                  found.get("PubTator3"))
        if not isinstance(documents, list):
            raise DataError(f"{source_name(name)}: found neither documents nor passages, expected "
                            "BioC's JSON")
        for number, document in enumerate(documents):
            place = f"{source_name(name)} (documents[{number}])"
            yield from _checked(document, place, pairs, tally)


def _checked(content: object, place: str, pairs: MentionPairs, tally: Tally) -> Iterator[Record]:
    with tally.rejecting():
        if not isinstance(content, dict):
            raise RecordError(place, f"found {content!r:.40}, expected a document as an object",
                              content)
        yield _record(converted(content, _Document, place, strict=False), place, pairs, tally)


def _record(document: _Document, place: str, pairs: MentionPairs, tally: Tally) -> Record:
    parts = list(chain.from_iterable(
        [passage] if passage.get("text") or not passage.get("sentences") else passage["sentences"]
        for passage in document["passages"]))
    text, sections, shifts = "", [], []
    for part in parts:
        start = len(text) + 1 if text else 0
        shifts.append((part["offset"], start - part["offset"]))
        text += f"{' ' if text else ''}{part.get('text') or ''}"
        infons = part.get("infons", {})
        label = infons.get("section_type") or infons.get("type") or ""
        sections.append({"label": str(label), "start": start, "end": len(text)})
    holders = [document, *document["passages"], *chain.from_iterable(
        passage.get("sentences", ()) for passage in document["passages"])]
    annotations = chain.from_iterable(holder.get("annotations", ()) for holder in holders)
    mentions = [_mention(one, number, shifts, place) for number, one in enumerate(annotations, 1)]
    found = entities(text, mentions, tally)
    arcs: list[Arc] = []
    concepts: list[Arc] = []
    for relation in chain.from_iterable(holder.get("relations", ()) for holder in holders):
        made = _arcs(relation, place)
        if not made:
            tally.lose(RELATIONS_LOST, place, "found a relation without two nodes or concepts",
                       relation)
        (arcs if relation.get("nodes") else concepts).extend(made)
    meta = {"meta": {"sections": sections}} if len(sections) > 1 else {}
    return Record(id=str(document["id"]), text=text, entities=found, relations=[
        *relations(arcs, found, tally),
        *concept_relations(concepts, found, pairs, tally)], **meta, place=place)


def _mention(annotation: _Annotation, number: int, shifts: list[tuple[int, int]],
             place: str) -> Mention:
    infons = dict(annotation.get("infons", {}))
    kind = str(infons.pop("type", "") or "ENTITY")
    key = next((key for key in _CONCEPTS if infons.get(key)), None)
    more: JsonObject = {IDENTIFIER: str(infons.pop(key))} if key else {}
    if infons := {name: value for name, value in infons.items() if value is not None}:
        more["infons"] = infons
    spans = tuple(_shifted(location, shifts) for location in annotation["locations"])
    return Mention(kind, spans or ((0, 0),), annotation.get("text"),
                   str(annotation.get("id", "")) or f"T{number}", more, place, annotation)


def _shifted(location: _Location, shifts: list[tuple[int, int]]) -> Span:
    """Count a location from the start of the text, by the last part that begins before it."""
    offset = location["offset"]
    shift = next((shift for first, shift in reversed(shifts) if first <= offset), 0)
    return offset + shift, offset + shift + location["length"]


def _arcs(relation: _Relation, place: str) -> list[Arc]:
    """Make arcs of annotations or of concepts; of several nodes the first is the head of each."""
    infons = dict(relation.get("infons", {}))
    kind = str(infons.pop("type", "") or infons.pop("relation", "") or "RELATION")
    if nodes := relation.get("nodes"):
        head, *tails = (str(node["refid"]) for node in nodes)
        return [Arc(head, tail, kind, {}, place, relation) for tail in tails]
    novelty = infons.pop("novel", None)
    infons = {key: value for key, value in infons.items() if key.startswith("entity")} \
        if "entity1" in infons else infons
    if len(infons) != 2:
        return []
    head, tail = map(str, infons.values())
    return [Arc(head, tail, kind, {"novelty": novelty} if novelty else {}, place, relation)]


def _from_xml(element: Element) -> JsonObject:
    """Turn XML into what the JSON has; numbers stay text."""
    content: JsonObject = {"id": element.get("id")} if element.get("id") else {}
    for child in element:
        tag, text = str(child.tag), child.text or ""
        if tag == "infon":
            content.setdefault("infons", {})[child.get("key", "")] = text
        elif tag == "location":
            content.setdefault("locations", []).append(dict(child.attrib))
        elif tag == "node":
            content.setdefault("nodes", []).append(dict(child.attrib))
        elif tag in ("passage", "sentence", "annotation", "relation"):
            content.setdefault(f"{tag}s", []).append(_from_xml(child))
        else:
            content[tag] = text.strip() if tag in ("id", "offset") else text
    return content
