"""Stand-off annotation: texts, and tab-separated tables of mentions and relations with offsets."""

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
_LIKENESS = 0.8  # minimum similarity of a damaged type to a known type
_OFFSET = re.compile(r"-?\d{1,18}")
# Two texts in one field, as in a JSON object that was quoted as CSV.
_TITLE_ABSTRACT = re.compile(
    r'"(?P<title>.*?)"", ""(?:Astratto|Abstract)"": ""(?P<abstract>.*?)(?:""\}")?', re.DOTALL)


@reader
def standoff_records(corpora: Iterable[str], tally: Tally,
                     annotations: Iterable[str]) -> Iterator[Record]:
    """Yield every text of `id|text` files with its annotations as entities.

    A mention that is not at its offset moves to the nearest occurrence without another annotation,
    preferably in the same case. A short mention prefers complete words. If there is no occurrence,
    the mention is lost, and its document is kept. White space at the ends of a mention is removed.

    A text in two parts, `"title"", ""Abstract"": ""abstract`, becomes title, a space and abstract.
    Bars and tabs at the end of a line are dropped. Documents that repeat an earlier one are left
    out. Tabs inside a quoted mention become the commas that BioBIT's BC2GM had there. All
    annotations are kept in memory, but only one text at a time.

    Args:
        corpora: files of texts; `-` for stdin.
        annotations: files of mentions, separated by tabs: `id start end mention type`, or with `T`
            or `A` after the id if offsets count from the title or the abstract.
        tally: counts matched, moved, lost and repeated annotations.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.
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
    """Read a mention, with the id `A` if its offsets count from the abstract."""
    fields = line.split("\t")
    part = fields.pop(1) if len(fields) > 5 and fields[1] in ("T", "A") else "T"
    while len(fields) > 5 and not fields[-1]:
        fields.pop()
        counts["empty columns at the end of lines left out"] += 1
    if len(fields) > 5 and fields[3].startswith('"') and fields[-2].endswith('"'):
        fields[3:-1] = [",".join(fields[3:-1])[1:-1]]
        counts["mentions with tabs in place of commas corrected"] += 1
    if len(fields) != 5:
        raise RecordError(place, f"found {len(fields)} columns in {line[:40]!r}, expected id, "
                                 "start, end, mention and type separated by tabs, optionally with "
                                 "T or A after the id", line)
    document, start, end, mention, kind = fields
    if not kind.strip():
        raise RecordError(place, "found no type in the last column, expected one", line)
    return document, Mention(kind.strip(), (offsets(start, end, place, line),), mention, part,
                             place=place, content=line)


def _entities(text: str, abstract: int, mentions: Iterable[Mention],
              tally: Tally) -> list[JsonObject]:
    """Make the entities of one text, without repeated spans of the same type."""
    moved = [replace(one, id="", spans=tuple(
        (start + shift, end + shift) for start, end in one.spans))
        for one in mentions for shift in [abstract if one.id == "A" else 0]]
    found = entities(text, moved, tally)
    unique = {(entity["start"], entity["end"], entity["type"]): entity for entity in found}
    tally.counts[REPEATED] += len(found) - len(unique)
    return list(unique.values())


def columns_of(place: str, line: str, names: Sequence[str]) -> list[str]:
    """Split a line at tabs.

    Raises:
        RecordError: the numbers of columns and names differ.
    """
    found = line.split("\t")
    if len(found) != len(names):
        raise RecordError(place, f"found {len(found)} columns in {line[:40]!r}, expected "
                                 f"{len(names)} separated by tabs: {', '.join(names)}", line)
    return found


def by_document(names: Iterable[str], what: str, read: Callable[[str, str], tuple[str, Annotation]],
                tally: Tally) -> dict[str, list[Annotation]]:
    """Read annotations by document id, using repeated lines once.

    Args:
        names: files with one annotation per line.
        what: name of the annotations in counts, such as "relations".
        read: returns document and annotation for a place and a line; may raise a `RecordError`.
        tally: counts repeated lines, and rejects lines that cannot be read.
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
    """Count annotations of documents whose text is missing."""
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
        texts: id, text, other keys and place of each text.
        mentions: mentions by text id; mentions without an id become T1, T2 and so on.
        arcs: relations by text id.
        relate: makes the relations of a text from its arcs and entities.
        tally: counts lost annotations, for example of missing texts.
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
    """Parse two offsets.

    Raises:
        RecordError: they are not whole numbers.
    """
    if not all(map(_OFFSET.fullmatch, (start.strip(), end.strip()))):
        raise RecordError(place, f"found the offsets {start[:20]!r} and {end[:20]!r}, expected "
                                 "whole numbers", line)
    return int(start), int(end)


def abstract_sections(title: str, abstract: str) -> JsonObject:
    """Return `meta` with the sections of a title, a space and an abstract."""
    if not (title and abstract):
        return {}
    return {"meta": {"sections": [
        {"label": "TITLE", "start": 0, "end": len(title)},
        {"label": "ABSTRACT", "start": len(title) + 1, "end": len(title) + 1 + len(abstract)}]}}


class _Text(TypedDict):
    PMID: str
    Testo: str


def json_texts(content: str, name: str, tally: Tally) -> Iterator[tuple[str, str, JsonObject, str]]:
    """Yield id, text, an empty dictionary and place of each text in BioBIT's JSON.

    Raises:
        DataError: the file is neither blank nor JSON with a list under `data`.
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
    """Return the known type for a name that translation may have damaged, and count damaged names.

    `GENE -Y` and `CHEMIC AL` contain spaces, `GENE- Livelli di Y` contains words of the text.

    Raises:
        RecordError: no known type is similar.
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
    counts["damaged type names corrected"] += 1
    return kind
