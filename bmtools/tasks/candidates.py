"""Candidate pairs of a record's entities, and the relations among them; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from bmtools.errors import RecordError, setting
from bmtools.records import Record
from bmtools.tasks.settings import RelationsConfig
from bmtools.text.segment import sentence_spans

Entity = Mapping[str, Any]
Ends = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """Two entities that may be related.

    Args:
        head: entity.
        tail: entity.
        start: of the part of the text that a model reads.
        end: of that part.
    """

    head: Entity
    tail: Entity
    start: int
    end: int

    @property
    def ends(self) -> Ends:
        """Ids of head and tail."""
        return self.head["id"], self.tail["id"]


@dataclass(frozen=True)
class Labels:
    """Labels of a record's candidates, by its relations.

    Args:
        pairs: label of each candidate; None for one that is left out, as its relations are all of
            other types than those that are learned.
        missed: types of the relations that no candidate's label expresses.
        other: number of relations of other types.
        repeated: number of missed relations whose pair has a label already.
    """

    pairs: Sequence[str | None]
    missed: Sequence[str]
    other: int
    repeated: int


def find_candidates(record: Record, entities: Sequence[Entity],
                    config: RelationsConfig) -> list[Candidate]:
    """List the pairs of a record's entities in the order of the text.

    Args:
        record: its text and, to find sentences, its language are read.
        entities: of the record, or predicted ones.
        config: types of heads and tails, direction, and how far apart they may be.

    Raises:
        RecordError: an entity without id, or no language to find sentences by.
    """
    for number, entity in enumerate(entities):
        if "id" not in entity:
            raise RecordError(record.place, f"key 'entities[{number}].id' is missing; expected the "
                              "name that relations call it by", record)
    ordered = sorted(entities, key=lambda entity: (entity["start"], entity["end"]))
    return [Candidate(head, tail, start, end)
            for start, end in _scopes(record, ordered, config)
            for one, other in combinations(
                [entity for entity in ordered if start <= entity["start"] < end], 2)
            for head, tail in _directions(one, other, config)]


def _directions(one: Entity, other: Entity, config: RelationsConfig) -> list[tuple[Entity, Entity]]:
    """Orient a pair of entities in the ways that their types allow; once unless directed."""
    heads, tails = config.names("head_types"), config.names("tail_types")
    fitting = [(head, tail) for head, tail in ((one, other), (other, one))
               if (not heads or head["type"] in heads) and (not tails or tail["type"] in tails)]
    return fitting if config.directed else fitting[:1]


def _scopes(record: Record, ordered: Sequence[Entity],
            config: RelationsConfig) -> Iterator[tuple[int, int]]:
    """Yield the parts of the text whose entities are paired; no entity crosses their borders."""
    if config.within == "record":
        yield 0, len(record["text"])
        return
    if not record.get("lang"):
        raise RecordError(record.place, "found no language, expected the key 'lang' to split "
                          f"sentences by, for {setting('within')} sentence", record)
    starts = [start for start, _ in sentence_spans(record["text"], record["lang"])]
    for entity in ordered:
        starts = [start for start in starts if not entity["start"] < start < entity["end"]]
    for start, after in zip(starts, [*starts[1:], len(record["text"])], strict=True):
        yield start, start + len(record["text"][start:after].rstrip())


def label_candidates(candidates: Sequence[Candidate], relations: Iterable[Mapping[str, str]],
                     config: RelationsConfig) -> Labels:
    """Label candidates by a record's relations.

    A pair with relations of several types has the first one's label; the model chooses one label a
    pair, so the others are missed.

    Args:
        candidates: of the record.
        relations: of the record.
        config: types that count, and direction.
    """
    wanted, negative = config.names("types"), config.no_relation_label
    kinds: dict[Ends, list[str]] = {}
    others: set[Ends] = set()
    other = 0
    for relation in relations:
        ends, kind = _key((relation["head"], relation["tail"]), config), relation["type"]
        if kind == negative:
            continue
        if wanted and kind not in wanted:
            others.add(ends)
            other += 1
        elif kind not in kinds.setdefault(ends, []):
            kinds[ends].append(kind)
    labels: list[str | None] = []
    expressed = set()
    for candidate in candidates:
        ends = _key(candidate.ends, config)
        dropped = config.other_types == "drop" and ends in others and ends not in kinds
        labels.append(None if dropped else kinds.get(ends, [negative])[0])
        expressed.add(ends)
    repeated = [kind for ends in kinds.keys() & expressed for kind in kinds[ends][1:]]
    unreached = [kind for ends in kinds.keys() - expressed for kind in kinds[ends]]
    return Labels(labels, sorted([*repeated, *unreached]), other, len(repeated))


def _key(ends: Ends, config: RelationsConfig) -> Ends:
    """Name a pair, whichever entity comes first unless relations are directed."""
    return ends if config.directed or ends[0] <= ends[1] else (ends[1], ends[0])
