"""Stand-off annotation: texts, and tables of mentions and relations by tab, with offsets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import TypedDict, TypeVar

from bmtools.corpus.formats.sets.mentions import (
    RELATIONS_LOST,
    REPEATED,
    Arc,
    Mention,
    Span,
    entities,
)
from bmtools.corpus.formats.tally import LOST, Tally, reader
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import whole_json
from bmtools.io.sources import placed_lines, source_name
from bmtools.records import JsonObject, Record, converted

Annotation = TypeVar("Annotation", Mention, Arc)
_LIKENESS = 0.8  # of a broken type to a known one
_OFFSET = re.compile(r"-?\d{1,18}")
# Two texts in one field, as a JSON object leaves them when it is quoted as CSV.
_TITLE_ABSTRACT = re.compile(
    r'"(?P<title>.*?)"", ""(?:Astratto|Abstract)"": ""(?P<abstract>.*?)(?:""\}")?', re.DOTALL)


@reader
def standoff_records(corpora: Iterable[str], tally: Tally,
                     annotations: Iterable[str]) -> Iterator[Record]:
    """Yield every text of `id|text` files with its annotations as entities.

    An annotation whose mention is not at its offset moves to the nearest occurrence without
    another annotation, in its own letters first and then in any case; a short one prefers whole
    words. Without any it is lost, and its document stays. White space at the ends of a mention is
    removed. A text in two parts, `"title"", ""Abstract"": ""abstract`, becomes title, a space and
    abstract. Bars at the end of a line are dropped, and so is a document that repeats an earlier
    one. A tab at the end of a line is dropped, and tabs inside a quoted mention become the commas
    that BioBIT's BC2GM had there. All annotations are held in memory, the texts one at a time.

    Args:
        corpora: files of texts; `-` for stdin.
        annotations: files of mentions, by tab: `id start end mention type`, or with `T` or `A`
            after the id where offsets count from the title or from the abstract.
        tally: counts matched, moved, lost and repeated annotations.
            It rejects lines that cannot be read, and annotations without an occurrence, which
            otherwise are dropped.
    """
    waiting = by_document(annotations, "annotations", partial(_mention, counts=tally.counts), tally)
    seen: dict[str, bytes] = {}
    for place, line in chain.from_iterable(map(placed_lines, corpora)):
        document, bar, content = line.partition("|")
        if not bar or not document.strip():
            tally.reject(RecordError(place, f"found {line[:40]!r}, expected id|text", line))
            continue
        text, abstract = content.rstrip("|"), 0
        if parts := _TITLE_ABSTRACT.fullmatch(text):
            text, abstract = f"{parts['title']} {parts['abstract']}", len(parts["title"]) + 1
        digest = blake2b(text.encode()).digest()
        if seen.get(document) == digest:
            tally.counts["repeated documents left out"] += 1
            continue
        seen[document] = digest
        found = _entities(text, abstract, waiting.get(document, ()), tally)
        yield Record(id=document, text=text, entities=found, place=place)
    lose_absent(waiting, seen, LOST, tally)


def _mention(place: str, line: str, counts: Counter[str]) -> tuple[str, Mention]:
    """Read a mention, whose id is `A` where its offsets count from the abstract."""
    fields = line.split("\t")
    part = fields.pop(1) if len(fields) > 5 and fields[1] in ("T", "A") else "T"
    while len(fields) > 5 and not fields[-1]:
        fields.pop()
        counts["empty columns at the end of lines left out"] += 1
    if len(fields) > 5 and fields[3].startswith('"') and fields[-2].endswith('"'):
        fields[3:-1] = [",".join(fields[3:-1])[1:-1]]
        counts["mentions with tabs in place of commas mended"] += 1
    if len(fields) != 5:
        raise RecordError(place, f"found {len(fields)} columns in {line[:40]!r}, expected id, "
                                 "start, end, mention and type by tab, with T or A after the id "
                                 "or without", line)
    document, start, end, mention, kind = fields
    if not kind.strip():
        raise RecordError(place, "found no type in the last column, expected one", line)
    return document, Mention(kind.strip(), (offsets(start, end, place, line),), mention, part,
                             place=place, content=line)


def _entities(text: str, abstract: int, mentions: Iterable[Mention],
              tally: Tally) -> list[JsonObject]:
    """Make the entities of one text; a place has each type once."""
    moved = [replace(one, id="", spans=tuple(
        (start + shift, end + shift) for start, end in one.spans))
        for one in mentions for shift in [abstract if one.id == "A" else 0]]
    found = entities(text, moved, tally)
    unique = {(entity["start"], entity["end"], entity["type"]): entity for entity in found}
    tally.counts[REPEATED] += len(found) - len(unique)
    return list(unique.values())


def columns_of(place: str, line: str, names: Sequence[str]) -> list[str]:
    """Split a line by tab.

    Raises:
        RecordError: it has not as many columns as there are names.
    """
    found = line.split("\t")
    if len(found) != len(names):
        raise RecordError(place, f"found {len(found)} columns in {line[:40]!r}, expected "
                                 f"{len(names)} by tab: {', '.join(names)}", line)
    return found


def by_document(names: Iterable[str], what: str, read: Callable[[str, str], tuple[str, Annotation]],
                tally: Tally) -> dict[str, list[Annotation]]:
    """Read annotations by the id of their document; repeated lines are taken once.

    Args:
        names: files with one a line.
        what: they are: annotations.
        read: makes document and annotation of place and line; may raise a `RecordError`.
        tally: counts repeated lines, and rejects those that cannot be read.
    """
    found: dict[str, list[Annotation]] = defaultdict(list)
    seen = set()
    for place, line in chain.from_iterable(map(placed_lines, names)):
        if line in seen:
            tally.counts[f"repeated {what} left out"] += 1
            continue
        seen.add(line)
        try:
            document, annotation = read(place, line)
            found[document].append(annotation)
        except RecordError as error:
            tally.counts[f"{what} lost"] += 1
            tally.reject(error)
    return found


def lose_absent(annotations: Mapping[str, Iterable[Mention | Arc]], documents: Collection[str],
                what: str, tally: Tally) -> None:
    """Count annotations of documents that no file of texts contains."""
    for document, waiting in annotations.items():
        for one in waiting if document not in documents else ():
            tally.lose(what, one.place, f"found the document {document!r}, which no file of texts "
                       "contains", one.content)


def annotated_texts(texts: Iterable[tuple[str, str, JsonObject, str]],
                    mentions: Mapping[str, Sequence[Mention]], arcs: Mapping[str, Sequence[Arc]],
                    relate: Callable[[Sequence[Arc], list[JsonObject]], list[JsonObject]],
                    tally: Tally) -> Iterator[Record]:
    """Yield a record for every text, with its entities and relations.

    Args:
        texts: id, text, further keys and place of each.
        mentions: by the ids of texts; those without an id become T1, T2 and so on.
        arcs: by the ids of texts.
        relate: makes the relations of a text from its arcs and its entities.
        tally: counts what is lost, as of texts that are absent.
    """
    seen = set()
    for document, text, more, place in texts:
        seen.add(document)
        found = [{"id": f"T{number}", **entity} for number, entity in enumerate(
            entities(text, mentions.get(document, ()), tally), 1)]
        yield Record(id=document, text=text, entities=found,
                     relations=relate(arcs.get(document, ()), found), **more, place=place)
    lose_absent(mentions, seen, LOST, tally)
    lose_absent(arcs, seen, RELATIONS_LOST, tally)


def offsets(start: str, end: str, place: str, line: str) -> Span:
    """Read two offsets.

    Raises:
        RecordError: they are no whole numbers.
    """
    if not all(map(_OFFSET.fullmatch, (start.strip(), end.strip()))):
        raise RecordError(place, f"found the offsets {start[:20]!r} and {end[:20]!r}, expected "
                                 "whole numbers", line)
    return int(start), int(end)


def abstract_sections(title: str, abstract: str) -> JsonObject:
    """Return `meta` with the sections of a title, a blank and an abstract."""
    if not (title and abstract):
        return {}
    return {"meta": {"sections": [
        {"label": "TITLE", "start": 0, "end": len(title)},
        {"label": "ABSTRACT", "start": len(title) + 1, "end": len(title) + 1 + len(abstract)}]}}


class _Text(TypedDict):
    PMID: str
    Testo: str


def json_texts(content: str, name: str, tally: Tally) -> Iterator[tuple[str, str, JsonObject, str]]:
    """Yield id, text, no further keys and place of the texts in BioBIT's JSON.

    Raises:
        DataError: no JSON, or without a list under `data`; a blank file has no texts.
    """
    found = whole_json(content, name, "an object with 'data'")
    data = found.get("data") if isinstance(found, dict) else [] if found is None else None
    if not isinstance(data, list):
        raise DataError(f"{source_name(name)}: found no list under 'data', expected texts with "
                        "PMID and Testo")
    for number, item in enumerate(data):
        place = f"{source_name(name)} (data[{number}])"
        with tally.rejecting():
            text = converted(item, _Text, place)
            yield text["PMID"], text["Testo"], {}, place


def known_type(name: str, known: Sequence[str], counts: Counter[str], place: str, line: str) -> str:
    """Return the known type of a name that translation may have broken, and count broken ones.

    `GENE -Y` and `CHEMIC AL` have blanks, `GENE- Livelli di Y` words of the text in between.

    Raises:
        RecordError: there is none.
    """
    from difflib import get_close_matches

    if name in known:
        return name
    plain = "".join(name.split())
    for kind in sorted(known, key=len, reverse=True):
        if len(plain) >= len(kind) and any(
                plain.startswith(kind[:at]) and plain.endswith(kind[at:])
                for at in range(len(kind) + 1)):
            break
    else:
        kind = next(iter(get_close_matches(plain, known, 1, _LIKENESS)), "")
    if not kind:
        raise RecordError(place, f"found the type {name!r}, expected {', '.join(known)}", line)
    counts["broken names of types mended"] += 1
    return kind
