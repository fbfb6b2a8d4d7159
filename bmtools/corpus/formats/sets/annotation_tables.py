"""Tables of annotations by tab, and the texts that they belong to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypedDict, TypeVar

from bmtools.corpus.formats.sets.mentions import (
    LOST,
    RELATIONS_LOST,
    Arc,
    Mention,
    Span,
    entities,
)
from bmtools.corpus.formats.tally import Tally
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import whole_json
from bmtools.io.sources import read_lines, source_name
from bmtools.records import JsonObject, Record, converted

Annotation = TypeVar("Annotation", Mention, Arc)
_LIKENESS = 0.8  # of a broken type to a known one
_OFFSET = re.compile(r"-?\d{1,18}")


def placed_lines(name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that are not blank, each after its `file:line`."""
    for number, line in read_lines(name):
        if line.strip():
            yield f"{source_name(name)}:{number}", line


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
        with tally.rejecting():
            document, annotation = read(place, line)
            found[document].append(annotation)
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
