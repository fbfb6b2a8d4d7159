"""ChemProt in its three layouts: BioCreative's tables, BioBIT's Italian, SciBERT's sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from bmtools.corpus.formats.sets.annotation_tables import (
    Table,
    abstract_sections,
    by_document,
    json_texts,
    lose_absent,
    offsets,
    rows,
)
from bmtools.corpus.formats.sets.mentions import (
    LOST,
    RELATIONS_LOST,
    Arc,
    Mention,
    counted_losses,
    entities,
    mended_type,
    relations,
)
from bmtools.corpus.formats.settings import Genes, RelationTypes
from bmtools.corpus.formats.texts.json_lines import json_objects
from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.folders import read_text
from bmtools.records import Record

_TYPES = ("CHEMICAL", "GENE", "GENE-Y", "GENE-N")
_ABSTRACT = Table("PMID", "title", "abstract", name="abstract", plural="abstracts")
_ENTITY = Table("id", "T1", "type", "start", "end", "text", name="entity",
                plural="annotations")
_RELATION = Table("id", "CPR group", "Y or N", "label", "Arg1:T1", "Arg2:T2", name="relation",
                  plural="relations")
_MARKED = re.compile(r"(?>(?P<before>.*?)<< )(?>(?P<head>.+?) >>)(?>(?P<between>.*?)\[\[ )"
                     r"(?P<tail>.+?) \]\]", re.DOTALL)  # where one fails, later ones do


def chemprot_records(abstracts: Iterable[str], entity_files: Iterable[str],
                     relation_files: Iterable[str], genes: Genes = "keep",
                     relation_types: RelationTypes = "group", counts: Counter[str] | None = None,
                     reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every abstract, with its chemicals, proteins and their relations.

    Both layouts are told apart by content: BioCreative VI's `PMID title abstract` by tab, whose
    offsets count title, a blank and abstract, and BioBIT's JSON of `PMID` and `Testo`, whose
    offsets belong to another version of the text, so that mentions move to their nearest
    occurrence. Entities and relations are held in memory.

    Sources: Krallinger et al. 2017; Buonocore et al. 2023.

    Args:
        abstracts: files of abstracts; `-` for stdin.
        entity_files: `PMID T1 type start end text`, or the type after the text, by tab.
        relation_files: `PMID group evaluated label Arg1:T1 Arg2:T2`, by tab.
        genes: whether GENE-Y, a normalised protein, and GENE-N, another, stay apart or are GENE.
        relation_types: whether a relation's type is its group, as `CPR:4`, or its label, as
            `INHIBITOR`; the other one is kept under `label` or `group`.
        counts: counts annotations at their offset, moved, repeated and lost, types mended,
            relations repeated and lost.
        reject: receives lines that cannot be read, and what is lost, which otherwise is dropped.
    """
    counts = Counter() if counts is None else counts
    lose = counted_losses(counts, reject)
    mentions = by_document(entity_files, _ENTITY, partial(_mention, genes=genes, counts=counts),
                           lose, reject)
    arcs = by_document(relation_files, _RELATION, partial(_arc, kinds=relation_types), lose,
                       reject)
    seen = set()
    for document, text, meta, place in _texts(abstracts, reject):
        seen.add(document)
        found = entities(text, mentions.get(document, ()), counts, lose)
        yield Record(id=document, text=text, entities=found,
                     relations=relations(arcs.get(document, ()), found, lose), **meta, place=place)
    lose_absent(mentions, seen, LOST, lose)
    lose_absent(arcs, seen, RELATIONS_LOST, lose)


def _texts(names: Iterable[str],
           reject: Reject) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield id, text, further keys and place of abstracts, from tables or JSON."""
    for name in names:
        content = read_text(name)
        if content.lstrip().startswith("{"):
            yield from ((document, text, {}, place)
                        for document, text, place in json_texts(content, name, reject))
            continue
        lines = enumerate(content.split("\n"), 1)
        for place, line, (document, title, abstract) in rows(lines, name, _ABSTRACT, reject):
            if document.strip():
                meta = abstract_sections(title, abstract)
                yield document, f"{title} {abstract}", meta, place
            else:
                reject(RecordError(place, "found no PMID in the first column, expected one", line))


def _mention(place: str, line: str, columns: list[str], genes: Genes,
             counts: Counter[str]) -> tuple[str, Mention]:
    """Read an entity; BioCreative has the type before the offsets, BioBIT behind the text."""
    document, name, *others = columns
    if others[0].strip("-").isdecimal():
        start, end, text, found = others
    else:
        found, start, end, text = others
    if not name.strip():
        raise RecordError(place, "found no id in the second column, expected one, as T1", line)
    kind = mended_type(found, _TYPES)
    if kind is None:
        raise RecordError(place, f"found the type {found!r}, expected {', '.join(_TYPES)}", line)
    counts["broken names of types mended"] += kind != found
    kind = "GENE" if genes == "merge" and kind.startswith("GENE") else kind
    return document, Mention(kind, (offsets(start, end, place, line),), text, name, place=place,
                             content=line)


def _arc(place: str, line: str, columns: list[str],
         kinds: RelationTypes) -> tuple[str, Arc]:
    document, group, _, label, first, second = (column.strip() for column in columns)
    head, tail = first.removeprefix("Arg1:"), second.removeprefix("Arg2:")
    if head == first or tail == second:
        raise RecordError(place, f"found {first!r} and {second!r}, expected Arg1:ID and Arg2:ID",
                          line)
    kind, more = (group, {"label": label}) if kinds == "group" else (
        label, {"group": group})
    return document, Arc(head, tail, kind, more, place, line)


def marked_records(names: Iterable[str], default_type: str = "ENTITY", reject: Reject = refuse,
                   counts: Counter[str] | None = None) -> Iterator[Record]:
    """Yield a record for every sentence of SciBERT's ChemProt, with one relation each.

    The markers of `<< a >>` and `[[ b ]]` go, what they mark become the entities `a` and `b`; which
    of them is the chemical is not said there. Ids are the name of the file and the line's number.

    Source: Beltagy et al. 2019.

    Args:
        names: JSON Lines with `text` and `label`, compressed or not; `-` for stdin.
        default_type: of both entities.
        reject: receives lines that cannot be read.
        counts: not used; every reader takes it.
    """
    for number, place, content in json_objects(names, dict[str, Any], reject):
        try:
            record = _marked_record(content, default_type, place)
        except RecordError as error:
            reject(error)
            continue
        yield record.replace(id=number)


def _marked_record(content: dict[str, Any], default_type: str, place: str) -> Record:
    text, label = content.get("text"), content.get("label")
    marked = _MARKED.match(text) if isinstance(text, str) else None
    if marked is None or not isinstance(text, str) or not isinstance(label, str) or not label:
        raise RecordError(place, "found no text with << a >> before [[ b ]], or no label, expected "
                                 "SciBERT's ChemProt", content)
    before = marked["before"] + marked["head"] + marked["between"]
    head, tail = ({"id": key, "start": start, "end": start + len(marked[part]),
                   "type": default_type, "text": marked[part]}
                  for key, start, part in (("a", len(marked["before"]), "head"),
                                           ("b", len(before), "tail")))
    return Record(id="", text=before + marked["tail"] + text[marked.end():], entities=[head, tail],
                  relations=[{"head": "a", "tail": "b", "type": label}], place=place)
