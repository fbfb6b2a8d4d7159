"""ChemProt in three layouts, and BioRED in BioBIT's layout: texts and tab-separated tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from bmtools.corpus.formats.sets.mentions import (
    IDENTIFIER,
    Arc,
    Mention,
    concept_relations,
    relations,
)
from bmtools.corpus.formats.sets.standoff import (
    abstract_sections,
    annotated_texts,
    by_document,
    columns_of,
    json_texts,
    known_type,
    offsets,
)
from bmtools.corpus.formats.settings import Genes, MentionPairs, RelationTypes
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.json_lines import json_objects
from bmtools.errors import RecordError
from bmtools.io.folders import read_text
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record

_TYPES = ("CHEMICAL", "GENE", "GENE-Y", "GENE-N")
_ABSTRACT = ("PMID", "title", "abstract")
_ENTITY = ("id", "T1", "type", "start", "end", "text")
_RELATION = ("id", "CPR group", "Y or N", "label", "Arg1:T1", "Arg2:T2")
_BIORED_TYPES = (
    "CHEMICALENTITY", "DISEASEORPHENOTYPICFEATURE", "GENEORGENEPRODUCT", "ORGANISMTAXON",
    "SEQUENCEVARIANT", "CELLLINE")
_CONCEPT = ("PMID", "start", "end", "text", "type", "concept")
_RELATED = ("PMID", "type", "concept", "concept", "novelty")
_MARKED = re.compile(r"(?>(?P<before>.*?)<< )(?>(?P<head>.+?) >>)(?>(?P<between>.*?)\[\[ )"
                     r"(?P<tail>.+?) \]\]", re.DOTALL)  # if one match fails, later ones also fail


@reader
def chemprot_records(abstracts: Iterable[str], tally: Tally, entity_files: Sequence[str] = (),
                     relation_files: Sequence[str] = (), genes: Genes = "keep",
                     relation_types: RelationTypes = "group",
                     default_type: str = "ENTITY") -> Iterator[Record]:
    """Yield a record for every abstract, with its chemicals, proteins and their relations.

    The content shows which of two layouts a file has. BioCreative VI's is `PMID title abstract`
    separated by tabs, whose offsets count the title, a space and the abstract. BioBIT's is JSON
    with `PMID` and `Testo`. Its offsets belong to another version of the text, so mentions move to
    their nearest occurrence. Entities and relations are kept in memory. Without their files, the
    sentences of SciBERT's layout are read; see `marked_records`.

    Sources: Krallinger et al. 2017; Buonocore et al. 2023.

    Args:
        abstracts: files of abstracts; `-` for stdin.
        entity_files: `PMID T1 type start end text`, or with the type after the text, separated by
            tabs.
        relation_files: `PMID group evaluated label Arg1:T1 Arg2:T2`, separated by tabs.
        genes: whether GENE-Y, a normalised protein, and GENE-N, another protein, are kept or merged
            to GENE.
        relation_types: whether a relation's type is its group, such as `CPR:4`, or its label, such
            as `INHIBITOR`; the other value is stored under `label` or `group`.
        default_type: type of the entities in SciBERT's layout.
        tally: counts annotations at their offset, moved, repeated and lost, corrected types,
            and relations repeated and lost.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.
    """
    if not entity_files and not relation_files:
        return marked_records(abstracts, default_type, tally)
    if not (entity_files and relation_files):
        raise ValueError("found only one of --entities and --relations; give both, or leave both "
                         "out for SciBERT's lines")
    mentions = by_document(entity_files, "annotations",
                           partial(_mention, genes=genes, counts=tally.counts), tally)
    arcs = by_document(relation_files, "relations", partial(_arc, kinds=relation_types), tally)
    return annotated_texts(_texts(abstracts, tally), mentions, arcs,
                           partial(relations, tally=tally), tally)


def _texts(names: Iterable[str], tally: Tally) -> Iterator[tuple[str, str, JsonObject, str]]:
    """Yield id, text, other keys and place of abstracts, from tables or JSON."""
    for name in names:
        content = read_text(name)
        if content.lstrip().startswith("{"):
            yield from json_texts(content, name, tally)
            continue
        for number, line in enumerate(content.split("\n"), 1):
            place = f"{source_name(name)}:{number}"
            with tally.rejecting():
                if line.strip():
                    document, title, abstract = columns_of(place, line, _ABSTRACT)
                    if not document.strip():
                        raise RecordError(place, "found no PMID in the first column, expected one",
                                          line)
                    yield document, f"{title} {abstract}", abstract_sections(title, abstract), place


def _mention(place: str, line: str, genes: Genes, counts: Counter[str]) -> tuple[str, Mention]:
    """Read an entity; its type is before the offsets in BioCreative, after the text in BioBIT."""
    document, name, *others = columns_of(place, line, _ENTITY)
    if others[0].strip("-").isdecimal():
        start, end, text, found = others
    else:
        found, start, end, text = others
    if not name.strip():
        raise RecordError(place, "found no id in the second column, expected one such as T1", line)
    kind = known_type(found, _TYPES, counts, place, line)
    kind = "GENE" if genes == "merge" and kind.startswith("GENE") else kind
    return document, Mention(kind, (offsets(start, end, place, line),), text, name, place=place,
                             content=line)


def _arc(place: str, line: str, kinds: RelationTypes) -> tuple[str, Arc]:
    document, group, _, label, first, second = map(str.strip, columns_of(place, line, _RELATION))
    head, tail = first.removeprefix("Arg1:"), second.removeprefix("Arg2:")
    if head == first or tail == second:
        raise RecordError(place, f"found {first!r} and {second!r}, expected Arg1:ID and Arg2:ID",
                          line)
    kind, more = (group, {"label": label}) if kinds == "group" else (label, {"group": group})
    return document, Arc(head, tail, kind, more, place, line)


def marked_records(names: Iterable[str], default_type: str, tally: Tally) -> Iterator[Record]:
    """Yield a record for every sentence of SciBERT's ChemProt, with one relation each.

    The markers of `<< a >>` and `[[ b ]]` are removed, and the marked words become the entities `a`
    and `b`. The format does not state which of them is the chemical. Ids are the file name and the
    line number.

    Source: Beltagy et al. 2019.

    Args:
        names: JSON Lines with `text` and `label`, compressed or not; `-` for stdin.
        default_type: type of both entities.
        tally: rejects lines that cannot be read.
    """
    for name, place, content in json_objects(names, JsonObject, tally.reject):
        text, label = content.get("text"), content.get("label")
        marked = _MARKED.match(text) if isinstance(text, str) else None
        if marked is None or not isinstance(text, str) or not isinstance(label, str) or not label:
            tally.reject(RecordError(place, "found no text with << a >> before [[ b ]], or no "
                                            "label, expected SciBERT's ChemProt", content))
            continue
        before = marked["before"] + marked["head"] + marked["between"]
        head, tail = ({"id": key, "start": start, "end": start + len(marked[part]),
                       "type": default_type, "text": marked[part]}
                      for key, start, part in (("a", len(marked["before"]), "head"),
                                               ("b", len(before), "tail")))
        yield Record(id=name, text=before + marked["tail"] + text[marked.end():],
                     entities=[head, tail], place=place,
                     relations=[{"head": "a", "tail": "b", "type": label}])


@reader
def biored_records(texts: Iterable[str], tally: Tally, entity_files: Iterable[str],
                   relation_files: Iterable[str],
                   pairs: MentionPairs = "closest") -> Iterator[Record]:
    """Yield a record for every text, with its entities and their relations.

    Offsets belong to another version of the text, so mentions move to their nearest occurrence.
    Relations are between concepts; `pairs` selects the mentions that represent them. Entities and
    relations are kept in memory.

    Sources: Luo et al. 2022; Buonocore et al. 2023.

    Args:
        texts: JSON with `PMID` and `Testo`; `-` for stdin.
        entity_files: `PMID start end text type concept`, separated by tabs.
        relation_files: `PMID type concept concept novelty`, separated by tabs.
        pairs: see `concept_relations`.
        tally: counts annotations at their offset, moved, repeated and lost, corrected types,
            and relations repeated and lost.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.
    """
    mentions = by_document(entity_files, "annotations",
                           partial(_biored_mention, counts=tally.counts), tally)
    arcs = by_document(relation_files, "relations", _biored_arc, tally)
    found = (text for name in texts for text in json_texts(read_text(name), name, tally))
    return annotated_texts(found, mentions, arcs,
                           partial(concept_relations, pairs=pairs, tally=tally), tally)


def _biored_mention(place: str, line: str, counts: Counter[str]) -> tuple[str, Mention]:
    document, start, end, text, found, concept = columns_of(place, line, _CONCEPT)
    kind = known_type(found, _BIORED_TYPES, counts, place, line)
    return document, Mention(kind, (offsets(start, end, place, line),), text,
                             more={IDENTIFIER: concept.strip()}, place=place, content=line)


def _biored_arc(place: str, line: str) -> tuple[str, Arc]:
    document, kind, head, tail, novelty = map(str.strip, columns_of(place, line, _RELATED))
    if not kind:
        raise RecordError(place, "found no type in the second column, expected one", line)
    return document, Arc(head, tail, kind, {"novelty": novelty}, place, line)
