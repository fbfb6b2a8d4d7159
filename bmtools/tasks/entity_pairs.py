"""Pairs of entities as inputs: replaced, marked or unchanged, in a text cut around both."""

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
    """A text with two entities, prepared for a model, including special tokens.

    Args:
        mentions: indices of the tokens to pool, for the head and the tail; the first token
            of the input for a mention without tokens.
    """

    mentions: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class MarkedText:
    """A text in which two entities can be distinguished.

    Args:
        text: the text with placeholders or markers.
        pooled: span of each entity's pooled part: its words, placeholder or start marker.
        kept: span of each entity with its markers; long texts are cut around these spans.
    """

    text: str
    pooled: tuple[Span, Span]
    kept: tuple[Span, Span]


def mark(text: str, candidate: Candidate, config: RelationsConfig) -> MarkedText:
    """Mark a candidate's entities in the part of a text that is read.

    Source: Gu et al. 2021, section 6.5 and table 12. One placeholder replaces both entities if
    they overlap, such as `@CHEM-GENE$` in the files of BLUE and BLURB (Peng et al. 2019).

    Args:
        text: text of the record.
        candidate: the entities, and the part of the text.
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
    """Replace spans of a text, in order; return the text and the spans of the replacements."""
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
    """Insert markers; if entities share a boundary, the markers of the longer one are outside."""
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
    """Encode marked texts in order, each cut around its entities.

    Args:
        tokenizer: tokenizer of the model.
        texts: texts to encode.
        max_length: maximum number of tokens per input, including its two special tokens.
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
    """Choose the tokens of a long text that are nearest to its mentions, in order.

    Text between the mentions is kept if it fits completely.

    Args:
        length: length of the text in tokens.
        mentions: token indices of each mention; the first tokens of a long mention are always kept.
        size: maximum number of tokens to keep.

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
        start: start of the text that a model reads.
        end: end of the text that a model reads.
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
    """List the pairs of a record's entities in text order.

    Args:
        record: record whose text and, to find sentences, language are used.
        entities: entities of the record, or predicted ones.
        config: types of heads and tails, direction, and maximum distance.

    Raises:
        RecordError: if an entity has no id, or sentences are needed and the record has no language.
    """
    for number, entity in enumerate(entities):
        if "id" not in entity:
            raise RecordError(record.place, f"key 'entities[{number}].id' is missing; expected the "
                              "name that relations use for it", record)
    ordered = sorted(entities, key=lambda entity: (entity["start"], entity["end"]))
    return [Candidate(head, tail, start, end)
            for start, end in _scopes(record, ordered, config)
            for one, other in combinations(
                [entity for entity in ordered if start <= entity["start"] < end], 2)
            for head, tail in _directions(one, other, config)]


def _directions(one: Entity, other: Entity, config: RelationsConfig) -> list[tuple[Entity, Entity]]:
    """Return the directions of a pair that its types allow; only the first unless directed."""
    heads, tails = split_names(config.head_types), split_names(config.tail_types)
    fitting = [(head, tail) for head, tail in ((one, other), (other, one))
               if (not heads or head["type"] in heads) and (not tails or tail["type"] in tails)]
    return fitting if config.directed else fitting[:1]


def _scopes(record: Record, ordered: Sequence[Entity],
            config: RelationsConfig) -> Iterator[tuple[int, int]]:
    """Yield the parts of the text within which entities are paired; no entity is split."""
    if config.within == "record":
        yield 0, len(record["text"])
        return
    if not record.get("lang"):
        raise RecordError(record.place, "found no language, expected the key 'lang' to find "
                          f"sentences for {setting('within', 'sentence')}; set it with import "
                          "--lang", record)
    starts = [start for start, _ in sentence_spans(record["text"], record["lang"])]
    for entity in ordered:
        starts = [start for start in starts if not entity["start"] < start < entity["end"]]
    for start, after in zip(starts, [*starts[1:], len(record["text"])], strict=True):
        yield start, start + len(record["text"][start:after].rstrip())


def label_candidates(candidates: Sequence[Candidate], relations: Iterable[Mapping[str, str]],
                     config: RelationsConfig) -> tuple[list[str], list[str]]:
    """Label candidates by a record's relations.

    A pair with relations of several types gets the first one's label, and the others are missed,
    because the model predicts one label per pair. A pair counts as unrelated if all its relations
    have types that are not learned.

    Args:
        candidates: candidates of the record.
        relations: relations of the record.
        config: types that count, and direction.

    Returns:
        label of each candidate, and types of the relations that no candidate's label represents.
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
    """Return the key of a pair; it does not depend on the order unless relations are directed."""
    return ends if config.directed or ends[0] <= ends[1] else (ends[1], ends[0])
