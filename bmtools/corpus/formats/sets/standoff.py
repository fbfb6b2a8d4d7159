"""Stand-off annotation: a file of texts and a file of mentions with offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import chain

from bmtools.corpus.formats.sets.annotation_tables import (
    by_document,
    lose_absent,
    offsets,
    placed_lines,
)
from bmtools.corpus.formats.sets.mentions import LOST, REPEATED, Mention, entities
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError
from bmtools.records import JsonObject, Record

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
    one. All annotations are held in memory, the texts one at a time.

    Args:
        corpora: files of texts; `-` for stdin.
        annotations: files of mentions, by tab: `id start end mention type`, or with `T` or `A`
            after the id where offsets count from the title or from the abstract.
        tally: counts matched, moved, lost and repeated annotations.
            It rejects lines that cannot be read, and annotations without an occurrence, which
            otherwise are dropped.
    """
    waiting = by_document(annotations, "annotations", _mention, tally)
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


def _mention(place: str, line: str) -> tuple[str, Mention]:
    """Read a mention, whose id is `A` where its offsets count from the abstract."""
    fields = line.split("\t")
    part = fields.pop(1) if len(fields) == 6 and fields[1] in ("T", "A") else "T"
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
