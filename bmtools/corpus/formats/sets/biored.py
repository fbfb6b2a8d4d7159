"""BioBIT's Italian BioRED: texts in JSON, tables of entities and of related concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from bmtools.corpus.formats.sets.annotation_tables import (
    annotated_texts,
    by_document,
    columns_of,
    json_texts,
    known_type,
    offsets,
)
from bmtools.corpus.formats.sets.mentions import IDENTIFIER, Arc, Mention, concept_relations
from bmtools.corpus.formats.settings import MentionPairs
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError
from bmtools.io.folders import read_text
from bmtools.records import Record

_TYPES = ("CHEMICALENTITY", "DISEASEORPHENOTYPICFEATURE", "GENEORGENEPRODUCT", "ORGANISMTAXON",
          "SEQUENCEVARIANT", "CELLLINE")
_ENTITY = ("PMID", "start", "end", "text", "type", "concept")
_RELATION = ("PMID", "type", "concept", "concept", "novelty")


@reader
def biored_records(texts: Iterable[str], tally: Tally, entity_files: Iterable[str],
                   relation_files: Iterable[str],
                   pairs: MentionPairs = "closest") -> Iterator[Record]:
    """Yield a record for every text, with its entities and their relations.

    Offsets belong to another version of the text, so mentions move to their nearest occurrence.
    Relations are between concepts; which mentions stand for them is a matter of `pairs`. Entities
    and relations are held in memory.

    Sources: Luo et al. 2022; Buonocore et al. 2023.

    Args:
        texts: JSON with `PMID` and `Testo`; `-` for stdin.
        entity_files: `PMID start end text type concept` by tab.
        relation_files: `PMID type concept concept novelty` by tab.
        pairs: see `concept_relations`.
        tally: counts annotations at their offset, moved, repeated and lost, types mended,
            relations repeated and lost.
            It rejects lines that cannot be read, and what is lost, which otherwise is dropped.
    """
    mentions = by_document(entity_files, "annotations", partial(_mention, counts=tally.counts),
                           tally)
    arcs = by_document(relation_files, "relations", _arc, tally)
    found = (text for name in texts for text in json_texts(read_text(name), name, tally))
    return annotated_texts(found, mentions, arcs,
                           partial(concept_relations, pairs=pairs, tally=tally), tally)


def _mention(place: str, line: str, counts: Counter[str]) -> tuple[str, Mention]:
    document, start, end, text, found, concept = columns_of(place, line, _ENTITY)
    kind = known_type(found, _TYPES, counts, place, line)
    return document, Mention(kind, (offsets(start, end, place, line),), text,
                             more={IDENTIFIER: concept.strip()}, place=place, content=line)


def _arc(place: str, line: str) -> tuple[str, Arc]:
    document, kind, head, tail, novelty = map(str.strip, columns_of(place, line, _RELATION))
    if not kind:
        raise RecordError(place, "found no type in the second column, expected one", line)
    return document, Arc(head, tail, kind, {"novelty": novelty}, place, line)
