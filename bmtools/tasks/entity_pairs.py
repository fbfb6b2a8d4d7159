"""Pairs of entities as inputs: dummified, marked or as they are, in a text cut around both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bmtools.errors import RecordError, setting
from bmtools.records import Entity, Record
from bmtools.tasks.settings import RelationsConfig, split_names
from bmtools.tasks.task import ModelInput, encode_texts
from bmtools.text.segment import sentence_spans

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ends = tuple[str, str]
Span = tuple[int, int]
_FIRST = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairInput(ModelInput):
    """A text about two entities, ready for a model, special tokens included.

    Args:
        mentions: tokens of the head and of the tail whose states are pooled, by index; the first
            token of the input where a mention has none.
    """

    mentions: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class MarkedText:
    """A text in which two entities are told apart.

    Args:
        text: with placeholders or markers.
        pooled: span of each entity's pooled part: its words, placeholder or start marker.
        kept: span of each entity with its markers; long texts are cut around them.
    """

    text: str
    pooled: tuple[Span, Span]
    kept: tuple[Span, Span]


def mark(text: str, candidate: Candidate, config: RelationsConfig) -> MarkedText:
    """Mark a candidate's entities in the part of a text that is read.

    Source: Gu et al. 2021, section 6.5 and table 12; one placeholder replaces both entities where
    they overlap, as `@CHEM-GENE$` in BLUE's and BLURB's files (Peng et al. 2019).

    Args:
        text: of the record.
        candidate: its entities, and the part.
        config: encoding of entities, placeholders and markers.
    """
    spans = [(entity["start"] - candidate.start, entity["end"] - candidate.start)
             for entity in (candidate.head, candidate.tail)]
    text = text[candidate.start:max(candidate.end, *(candidate.start + end for _, end in spans))]
    if config.entities == "original":
        return MarkedText(text, (spans[0], spans[1]), (spans[0], spans[1]))
    if config.entities == "dummy":
        return _dummify(text, spans, names_in_text(candidate, config))
    return _insert_markers(text, spans, config)


def names_in_text(candidate: Candidate, config: RelationsConfig) -> list[str]:
    """List the markers of a candidate's entities, or placeholders for head, tail and both."""
    if config.entities != "dummy":
        return config.markers.split() if config.entities == "marked" else []
    head, tail, *both = config.placeholders.split() or [
        f"@{entity['type']}$" for entity in (candidate.head, candidate.tail)]
    return [head, tail, *(both or [f"@{head.strip('@$')}-{tail.strip('@$')}$"])]


def _edit(text: str, edits: Iterable[tuple[int, int, str]]) -> tuple[str, list[Span]]:
    """Replace spans of a text, in order; return it, and the spans of what is new."""
    made, before, found = "", 0, []
    for start, end, new in edits:
        made += text[before:start]
        found.append((len(made), len(made) + len(new)))
        made, before = made + new, end
    return made + text[before:], found


def _dummify(text: str, spans: Sequence[Span], names: Sequence[str]) -> MarkedText:
    (first, first_end), (second, second_end) = spans
    if first < second_end and second < first_end:
        made, found = _edit(text, [(min(first, second), max(first_end, second_end), names[2])])
        return MarkedText(made, (found[0], found[0]), (found[0], found[0]))
    order = sorted((0, 1), key=spans.__getitem__)
    made, found = _edit(text, [(*spans[number], names[number]) for number in order])
    both = found[order.index(0)], found[order.index(1)]
    return MarkedText(made, both, both)


def _insert_markers(text: str, spans: Sequence[Span], config: RelationsConfig) -> MarkedText:
    """Insert markers; of entities that share a border, the longer one's are outside."""
    markers = config.markers.split()
    marks = sorted([*((start, True, -end, number) for number, (start, end) in enumerate(spans)),
                    *((end, False, -start, -number) for number, (start, end) in enumerate(spans))])
    made, found = _edit(text, [
        (position, position, f"{markers[2 * number]} " if opens else f" {markers[1 - 2 * number]}")
        for position, opens, _, number in marks])
    places = {(opens, abs(number)): span
              for (_, opens, _, number), span in zip(marks, found, strict=True)}
    openings, closings = ([places[opens, number] for number in (0, 1)] for opens in (True, False))
    pooled = [(start, end - 1) for start, end in openings] if config.pooling == "starts" else \
        [(opening[1], closing[0]) for opening, closing in zip(openings, closings, strict=True)]
    kept = [(opening[0], closing[1]) for opening, closing in zip(openings, closings, strict=True)]
    return MarkedText(made, (pooled[0], pooled[1]), (kept[0], kept[1]))


def encode_pairs(tokenizer: PreTrainedTokenizerBase, texts: Sequence[MarkedText],
                 max_length: int) -> Iterator[PairInput]:
    """Encode marked texts, in order, each cut around its entities.

    Args:
        tokenizer: of the model.
        texts: to encode.
        max_length: most tokens of an input, its two special tokens included.
    """
    encodings = encode_texts(tokenizer, (marked.text for marked in texts))
    for marked, encoding in zip(texts, encodings, strict=True):
        ids = np.array(encoding.ids, dtype=np.int32)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        kept = keep_around(len(ids), [tokens_of(offsets, span) for span in marked.kept],
                           max_length - 2)
        head, tail = (np.flatnonzero(np.isin(kept, tokens_of(offsets, span))) + 1
                      for span in marked.pooled)
        yield PairInput(ids=np.array([tokenizer.cls_token_id, *ids[kept], tokenizer.sep_token_id],
                                     dtype=np.int32),
                        mentions=(head if len(head) else _FIRST, tail if len(tail) else _FIRST),
                        truncated=len(ids) - len(kept))


def tokens_of(offsets: np.ndarray, span: Span) -> np.ndarray:
    """List the tokens that share a character with a span.

    Args:
        offsets: (tokens, 2) start and end of each.
        span: start and end.
    """
    return np.flatnonzero((offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0]))


def keep_around(length: int, mentions: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Choose the tokens of a text that is too long: those nearest to its mentions, in order.

    What is between the mentions stays if there is room for all of it.

    Args:
        length: of the text in tokens.
        mentions: tokens of each, by index; of a long one, the first tokens are sure to stay.
        size: most tokens to keep.

    Returns:
        (tokens,) indices in ascending order.
    """
    positions = np.arange(length)
    if length <= size:
        return positions
    cores = [(tokens[0], min(tokens[-1], tokens[0] + size // 2 - 1))
             for tokens in mentions if len(tokens)] or [(0, 0)]
    distances = np.min([np.maximum(first - positions, positions - last)
                        for first, last in cores], axis=0).clip(min=0)
    low, high = min(first for first, _ in cores), max(last for _, last in cores)
    if high - low < size:
        distances[low:high] = 0
    return np.sort(np.argsort(distances, kind="stable")[:size])


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
    heads, tails = split_names(config.head_types), split_names(config.tail_types)
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
                          f"sentences by, for {setting('within')} sentence; import's --lang "
                          "sets it", record)
    starts = [start for start, _ in sentence_spans(record["text"], record["lang"])]
    for entity in ordered:
        starts = [start for start in starts if not entity["start"] < start < entity["end"]]
    for start, after in zip(starts, [*starts[1:], len(record["text"])], strict=True):
        yield start, start + len(record["text"][start:after].rstrip())


def label_candidates(candidates: Sequence[Candidate], relations: Iterable[Mapping[str, str]],
                     config: RelationsConfig) -> tuple[list[str], list[str]]:
    """Label candidates by a record's relations.

    A pair with relations of several types has the first one's label; the model chooses one label a
    pair, so the others are missed. Pairs whose relations are all of other types than those that
    are learned are unrelated.

    Args:
        candidates: of the record.
        relations: of the record.
        config: types that count, and direction.

    Returns:
        label of each candidate, and types of the relations that no candidate's label expresses.
    """
    wanted, negative = split_names(config.types), config.no_relation_label
    kinds: dict[Ends, list[str]] = {}
    for relation in relations:
        ends, kind = _key((relation["head"], relation["tail"]), config), relation["type"]
        if kind != negative and (not wanted or kind in wanted) \
                and kind not in kinds.setdefault(ends, []):
            kinds[ends].append(kind)
    pairs = [_key(candidate.ends, config) for candidate in candidates]
    return ([kinds.get(ends, [negative])[0] for ends in pairs],
            sorted(kind for ends, own in kinds.items()
                   for kind in (own[1:] if ends in pairs else own)))


def _key(ends: Ends, config: RelationsConfig) -> Ends:
    """Name a pair, whichever entity comes first unless relations are directed."""
    return ends if config.directed or ends[0] <= ends[1] else (ends[1], ends[0])
