"""PubTator format of BioRED and BC5CDR: title, abstract, mentions and relations of concepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bmtools.corpus.formats.sets.mentions import (
    IDENTIFIER,
    Arc,
    Mention,
    concept_relations,
    entities,
)
from bmtools.corpus.formats.sets.standoff import abstract_sections, offsets
from bmtools.corpus.formats.settings import MentionPairs
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import placed_lines
from bmtools.records import Record

_PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_NUMBER = re.compile(r"-?\d+")


@dataclass
class _Document:
    """A document while its lines are read."""

    id: str
    place: str
    title: str = ""
    abstract: str = ""
    mentions: list[Mention] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    size: int = 0


@reader
def pubtator_records(names: Iterable[str], tally: Tally,
                     pairs: MentionPairs = "closest") -> Iterator[Record]:
    """Yield a record for every document: the title, a space and the abstract.

    Offsets count code points of this text. A mention's concepts are stored under `identifier`, the
    parts of a composite mention (BC5CDR) under `composite`. Relations are between concepts; `pairs`
    selects the mentions that represent them.

    Sources: Wei et al. 2013; Li et al. 2016; Luo et al. 2022.

    Args:
        names: files, compressed or not; `-` for stdin.
        pairs: see `concept_relations`.
        tally: counts annotations at their offset, moved and lost, and relations lost.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.
    """
    for name in names:
        document: _Document | None = None
        for place, line in placed_lines(name):
            with tally.rejecting():
                part = _PART.fullmatch(line)
                if part and (document is None or part[1] != document.id or part[2] == "t"):
                    if document is not None:
                        yield _record(document, pairs, tally)
                    document = _Document(part[1], place)
                _add(document, line, part, place)
        if document is not None:
            yield _record(document, pairs, tally)


def _add(document: _Document | None, line: str, part: re.Match[str] | None, place: str) -> None:
    """Add a line to its document."""
    columns = line.split("\t")
    if document is None or not (part or columns[0] == document.id):
        raise RecordError(place, f"found {line[:40]!r}, expected ID|t|title before annotations of "
                                 "a document; for lines of ID|text, use import standoff", line)
    document.size += len(line)
    check_record_size(document.size, document.place)
    if part:
        if part[2] == "t":
            document.title = part[3]
        else:
            document.abstract = part[3]
    elif len(columns) >= 5 and _NUMBER.fullmatch(columns[1]):
        document.mentions.append(_mention(columns, line, place, len(document.mentions) + 1))
    elif len(columns) in (4, 5) and all(columns[1:4]):
        _, kind, head, tail, *novelty = columns
        more = {"novelty": novelty[0]} if novelty and novelty[0] else {}
        document.arcs.append(Arc(head, tail, kind, more, place, line))
    else:
        raise RecordError(place, f"found {len(columns)} columns in {line[:40]!r}, expected ID, "
                                 "START, END, MENTION, TYPE and CONCEPT, or ID, TYPE, CONCEPT "
                                 "and CONCEPT, separated by tabs", line)


def _mention(columns: list[str], line: str, place: str, number: int) -> Mention:
    _, start, end, text, kind, *concepts = columns
    if not kind.strip():
        raise RecordError(place, "found no type in the fifth column, expected one", line)
    names = (IDENTIFIER, "composite")
    more = {name: concept for name, concept in zip(names, concepts, strict=False) if concept}
    return Mention(kind, (offsets(start, end, place, line),), text, f"T{number}", more, place, line)


def _record(document: _Document, pairs: MentionPairs, tally: Tally) -> Record:
    text = " ".join(filter(None, (document.title, document.abstract)))
    found = entities(text, document.mentions, tally)
    return Record(id=document.id, text=text, entities=found,
                  relations=concept_relations(document.arcs, found, pairs, tally),
                  **abstract_sections(document.title, document.abstract), place=document.place)
