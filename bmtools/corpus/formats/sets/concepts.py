"""Relations between concepts, which a text mentions several times, as pairs of mentions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST, Arc, Lose
from bmtools.corpus.formats.settings import MentionPairs

Entity = dict[str, Any]
IDENTIFIER = "identifier"
"""Key of an entity's concept, such as a MeSH id; a string may name several."""


def concept_relations(arcs: Iterable[Arc], entities: Sequence[Entity], pairs: MentionPairs,
                      lose: Lose) -> list[dict[str, Any]]:
    """Make relations of mentions from relations of concepts, which `concepts` keeps.

    Args:
        arcs: whose head and tail are concepts.
        entities: with their concepts under `identifier`.
        pairs: `closest` takes every mention of the concept that has more, with the closest one of
            the other; `biobit` only where the head comes first, as Buonocore et al. do; `all`
            takes all.
        lose: receives relations of concepts that no entity has, or without a pair.
    """
    found = []
    for arc in arcs:
        heads, tails = (_mentions(entities, concept) for concept in (arc.head, arc.tail))
        absent = [repr(concept) for concept, mentions in ((arc.head, heads), (arc.tail, tails))
                  if not mentions]
        chosen = list(dict.fromkeys(_pairs(heads, tails, pairs)))
        if absent or not chosen:
            why = f"{' and '.join(absent)}, expected concepts of entities" if absent else \
                f"{arc.head!r} and {arc.tail!r}, of which no two mentions make a pair"
            lose(RELATIONS_LOST, arc.place, f"found a relation of {why} in the text", arc.content)
        found += [{"head": head, "tail": tail, "type": arc.type, **arc.more,
                   "concepts": [arc.head, arc.tail]} for head, tail in chosen]
    return found


def _mentions(entities: Iterable[Entity], concept: str) -> list[Entity]:
    plain = _plain(concept)
    return [entity for entity in entities if plain in _concepts(entity)]


def _concepts(entity: Entity) -> set[str]:
    """Return the concepts of an entity; BC5CDR joins several by `|`, which others have inside."""
    joined = _plain(str(entity.get(IDENTIFIER, "")))
    return {joined, *(part for separator in ",;|" for part in joined.split(separator))}


def _plain(concept: str) -> str:
    """Drop case and blanks: BioBIT's `C|SUB|G |1763|A` is `c|SUB|G|1763|A` of its relations."""
    return "".join(concept.casefold().split())


def _pairs(heads: Sequence[Entity], tails: Sequence[Entity],
           pairs: MentionPairs) -> Iterator[tuple[str, str]]:
    """Yield the ids of mentions that make pairs; none is a pair with itself."""
    if not (heads and tails):
        return
    if pairs == "all":
        for head in heads:
            yield from ((head["id"], tail["id"]) for tail in tails if head is not tail)
        return
    more_heads = len(heads) > len(tails)
    for one in heads if more_heads else tails:
        others = [other for other in (tails if more_heads else heads) if other is not one]
        if pairs == "biobit":
            others = [other for other in others if (
                one["end"] < other["start"] if more_heads else other["end"] < one["start"])]
        if others:
            other = min(others, key=lambda other: _gap(one, other))
            yield (one["id"], other["id"]) if more_heads else (other["id"], one["id"])


def _gap(one: Entity, other: Entity) -> int:
    return max(other["start"] - one["end"], one["start"] - other["end"])
