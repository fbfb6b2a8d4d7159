"""Stand-off annotation: a file of texts and a file of mentions with offsets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain

from bmtools.corpus.formats.sets.annotation_tables import lose_absent, offsets, placed_lines
from bmtools.corpus.formats.sets.mentions import LOST, REPEATED, Mention, entities
from bmtools.corpus.formats.tally import Tally
from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import JsonObject, Record

# Two texts in one field, as a JSON object leaves them when it is quoted as CSV.
_TITLE_ABSTRACT = re.compile(
    r'"(?P<title>.*?)"", ""(?:Astratto|Abstract)"": ""(?P<abstract>.*?)(?:""\}")?', re.DOTALL)


@dataclass(frozen=True)
class _Annotation:
    """A line of an annotation file.

    Args:
        start: offset in code points, from the start of its part.
        end: the end of the mention, exclusive.
        in_abstract: whether the offset counts from the abstract and not from the whole text.
        place: of the line, as `file:line`.
        content: the line itself.
    """

    document: str
    start: int
    end: int
    mention: str
    type: str
    in_abstract: bool
    place: str = field(compare=False)
    content: str = field(compare=False)


def standoff_records(corpora: Iterable[str], annotations: Iterable[str],
                     counts: Counter[str] | None = None,
                     reject: Reject = refuse) -> Iterator[Record]:
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
        counts: counts matched, moved, lost and repeated annotations.
        reject: receives lines that cannot be read, and annotations without an occurrence, which
            otherwise are dropped.
    """
    tally = Tally(counts, reject)
    waiting = _by_document(annotations, tally)
    seen: dict[str, bytes] = {}
    for place, line in chain.from_iterable(map(placed_lines, corpora)):
        document, bar, content = line.partition("|")
        if not bar or not document.strip():
            reject(RecordError(place, f"found {line[:40]!r}, expected id|text", line))
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


def _by_document(names: Iterable[str], tally: Tally) -> dict[str, dict[_Annotation, None]]:
    """Read all annotations in order; one that repeats another to the letter is left out."""
    found: dict[str, dict[_Annotation, None]] = defaultdict(dict)
    for place, line in chain.from_iterable(map(placed_lines, names)):
        with tally.rejecting():
            annotation = _annotation(line, place)
            tally.counts[REPEATED] += annotation in found[annotation.document]
            found[annotation.document].setdefault(annotation)
    return found


def _annotation(line: str, place: str) -> _Annotation:
    fields = line.split("\t")
    part = fields.pop(1) if len(fields) == 6 and fields[1] in ("T", "A") else "T"
    if len(fields) != 5:
        raise RecordError(place, f"found {len(fields)} columns in {line[:40]!r}, expected id, "
                                 "start, end, mention and type by tab, with T or A after the id "
                                 "or without", line)
    document, start, end, mention, kind = fields
    span = offsets(start, end, place, line, blanks=False)
    if not kind.strip():
        raise RecordError(place, "found no type in the last column, expected one", line)
    return _Annotation(document, *span, mention, kind.strip(), part == "A", place, line)


def _entities(text: str, abstract: int, annotations: Iterable[_Annotation],
              tally: Tally) -> list[JsonObject]:
    """Make the entities of one text; a place has each type once."""
    mentions = []
    for one in annotations:
        shift = abstract if one.in_abstract else 0
        mentions.append(Mention(one.type, ((one.start + shift, one.end + shift),), one.mention,
                                place=one.place, content=one.content))
    found = entities(text, mentions, tally)
    unique = {(entity["start"], entity["end"], entity["type"]): entity for entity in found}
    tally.counts[REPEATED] += len(found) - len(unique)
    return list(unique.values())
