"""Annotated mentions and relations, which are found in the text even if offsets are wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bmtools.corpus.formats.settings import MentionPairs
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED, Tally
from bmtools.records import JsonObject, Record

IDENTIFIER = "identifier"
"""Key of an entity's concept, such as a MeSH id; a string may name several."""

REPEATED = "repeated annotations left out"
RELATIONS_LOST = "relations lost"
Span = tuple[int, int]
_SHORT = 5  # characters
_FARTHEST_SHIFT = 2  # characters
# A marker that was put into the text for its translation and is still in the mention.
_MARKER = re.compile(r"^\^[\^ ]*_[\w-]+_ ?> *")


@dataclass(frozen=True)
class Mention:
    """An annotated mention in a file.

    Args:
        type: type of the entity.
        spans: offsets of its parts, ends exclusive; most mentions have one part.
        text: the mention as spelled in the file; None if the file does not contain it.
        id: id that relations refer to; empty if it has none.
        more: other keys of the entity.
        place: place of the annotation, `file:line`.
        content: the annotation itself, for `--rejects`.
    """

    type: str
    spans: tuple[Span, ...]
    text: str | None = None
    id: str = ""
    more: Mapping[str, object] = field(default_factory=dict)
    place: str = field(default="", compare=False)
    content: object = field(default=None, compare=False)


@dataclass(frozen=True)
class Arc:
    """A relation in a file.

    Args:
        head: id of the mention from which it starts.
        tail: id of the mention to which it leads.
        type: type of the relation.
        more: other keys of the relation.
        place: place of the relation, `file:line`.
        content: the relation itself, for `--rejects`.
    """

    head: str
    tail: str
    type: str
    more: Mapping[str, object] = field(default_factory=dict)
    place: str = field(default="", compare=False)
    content: object = field(default=None, compare=False)


def entities(text: str, mentions: Sequence[Mention], tally: Tally) -> list[JsonObject]:
    """Make the entities of a text in order; mentions that are not in the text are lost."""
    found: list[JsonObject] = []
    for mention, spans in zip(mentions, locate(text, mentions, tally.counts), strict=True):
        if isinstance(spans, str):
            tally.lose(LOST, mention.place, spans, mention.content)
            continue
        start, end = min(start for start, _ in spans), max(end for _, end in spans)
        parts = " ".join(text[first:last] for first, last in spans)
        found.append({**({"id": mention.id} if mention.id else {}), "start": start, "end": end,
                      "type": mention.type, "text": parts, **mention.more,
                      **({"spans": [list(span) for span in spans]} if len(spans) > 1 else {})})
    return sorted(found, key=lambda entity: (entity["start"], entity["end"]))


def annotated(identity: str, text: str, mentions: Sequence[Mention], arcs: Iterable[Arc],
              tally: Tally, place: str, **more: object) -> Record:
    """Make the record of a text, with its entities and their relations.

    Args:
        identity: id of the record.
        text: text of the record.
        mentions: all mentions of the text.
        arcs: all relations of the text.
        tally: counts lost annotations.
        place: place of the record.
        more: other keys.
    """
    found = entities(text, mentions, tally)
    return Record(id=identity, text=text, entities=found, relations=relations(arcs, found, tally),
                  **more, place=place)


def relations(arcs: Iterable[Arc], found: Iterable[JsonObject], tally: Tally) -> list[JsonObject]:
    """Make the relations of a record; relations of missing or ambiguous entity ids are lost.

    Args:
        arcs: relations in the file.
        found: the record's entities; relations refer only to entities with an id.
        tally: counts lost relations.
    """
    known, kept = Counter(entity["id"] for entity in found if "id" in entity), []
    for arc in arcs:
        unclear = [f"{end!r}, which {known[end]} entities have" if known[end] else repr(end)
                   for end in (arc.head, arc.tail) if known[end] != 1]
        if unclear:
            tally.lose(RELATIONS_LOST, arc.place, f"found a relation of {' and '.join(unclear)}, "
                       "expected the ids of entities in the text", arc.content)
        else:
            kept.append({"head": arc.head, "tail": arc.tail, "type": arc.type, **arc.more})
    return kept


def locate(text: str, mentions: Sequence[Mention],
           counts: Counter[str]) -> list[tuple[Span, ...] | str]:
    """Find the spans of mentions, or the reason why a mention is not in the text.

    A mention that is not at its offset moves to the nearest occurrence without another mention,
    preferably in the same case. A short mention prefers complete words. Mentions with the same
    offsets move together. White space at the ends is removed. The parts of a discontinuous mention
    move together, by one or two characters. If all offsets count UTF-16 units or bytes, they are
    converted.

    Args:
        text: text of the document.
        mentions: all mentions of the document.
        counts: counts mentions at their offset and moved mentions.
    """
    found = [_at_offset(text, mention) for mention in mentions]
    if any(isinstance(spans, str) for spans in found) and not text.isascii():
        mentions, found = _in_code_points(text, mentions, found, counts)
    moved: dict[tuple[object, ...], tuple[Span, ...] | str] = {}
    taken = {spans for spans in found if not isinstance(spans, str)}
    counts[MATCHED] += sum(not isinstance(spans, str) for spans in found)
    for number, mention in enumerate(mentions):
        if isinstance(found[number], str) and mention.text and mention.text.strip():
            key = (mention.spans, mention.text)
            spans = moved[key] if key in moved else \
                _moved_parts(text, mention) if len(mention.spans) > 1 else \
                nearest(text, mention.text, mention.spans[0][0], taken)
            found[number] = moved[key] = spans
            if not isinstance(spans, str):
                counts[MOVED] += 1
                taken.add(spans)
    return found


def _in_code_points(
        text: str, mentions: Sequence[Mention], found: list[tuple[Span, ...] | str],
        counts: Counter[str]) -> tuple[Sequence[Mention], list[tuple[Span, ...] | str]]:
    """Convert offsets to code points if all offsets of a document are correct in another unit."""
    for unit, encoding, size in (("UTF-16 units", "utf-16-le", 2), ("bytes", "utf-8", 1)):
        encoded = text.encode(encoding, "ignore")
        converted: list[Mention] = []
        spans: list[tuple[Span, ...] | str] = []
        for one in mentions:
            converted.append(replace(one, spans=tuple(
                (len(encoded[:start * size].decode(encoding, "ignore")),
                 len(encoded[:end * size].decode(encoding, "ignore")))
                for start, end in one.spans)))
            spans.append(_at_offset(text, converted[-1]))
            if isinstance(spans[-1], str):
                break
        else:
            counts[f"documents whose offsets count {unit}"] += 1
            return converted, spans
    return mentions, found


def _at_offset(text: str, mention: Mention) -> tuple[Span, ...] | str:
    """Return the spans without white space at their ends, or the reason if the text differs."""
    spans = mention.spans
    if any(not 0 <= start < end <= len(text) for start, end in spans):
        return (f"found the offsets {spans[0][0]} to {spans[-1][1]}, expected offsets in the text "
                f"of {len(text)} characters")
    parts = [text[start:end] for start, end in spans]
    if not all(map(str.strip, parts if mention.text is None else [mention.text, *parts])):
        return "found a mention of white space only, expected a word"
    if mention.text is not None and not _is_same(parts, mention.text):
        return (f"found the mention {mention.text!r} at {spans[0][0]}, where the text has "
                f"{' '.join(parts)!r}")
    return tuple((start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
                 for (start, _), part in zip(spans, parts, strict=True))


def _is_same(parts: Sequence[str], mention: str) -> bool:
    """Compare parts with their mention, which may contain different white space."""
    if len(parts) > 1:
        return "".join("".join(parts).split()) == "".join(mention.split())
    return parts[0] == mention or (len(parts[0]) == len(mention)
                                   and parts[0].split() == mention.split())


def _moved_parts(text: str, mention: Mention) -> tuple[Span, ...] | str:
    for shift in range(-_FARTHEST_SHIFT, _FARTHEST_SHIFT + 1):
        shifted = tuple((start + shift, end + shift) for start, end in mention.spans)
        spans = _at_offset(text, replace(mention, spans=shifted))
        if not isinstance(spans, str):
            return spans
    return _at_offset(text, mention)


def nearest(text: str, mention: str, start: int,
            taken: Collection[tuple[Span, ...]] = ()) -> tuple[Span] | str:
    """Find the occurrence of a mention nearest to an offset, or the reason why there is none.

    Args:
        text: text of the document.
        mention: words of the mention; case is ignored if there is no exact occurrence.
        start: offset that the mention should have.
        taken: spans of other mentions, which this mention cannot have.
    """
    spans = _occurrences(text, mention)
    free = [span for span in spans if (span,) not in taken]
    if free:
        return (min(free, key=lambda span: (_is_part_of_word(text, *span), abs(span[0] - start))),)
    why = "every occurrence is already annotated" if spans else "the text does not contain it"
    return f"found the mention {mention!r} at {start}, but {why}"


def _occurrences(text: str, mention: str) -> list[Span]:
    """Find a mention in a text: exactly, or in any case, or without its marker."""
    plain = mention.strip()
    for candidate in (plain, _MARKER.sub("", plain)):
        for flags in (re.NOFLAG, re.IGNORECASE):
            found = re.finditer(re.escape(candidate), text, flags)
            spans = [match.span() for match in found if match.start() < match.end()]
            if spans:
                return spans
    return []


def _is_part_of_word(text: str, start: int, end: int) -> bool:
    """Return whether a short mention is only a part of a word, such as `Se` in `Senza`.

    A long mention may be a part of a word, because translation joins words: `doxorubicinaindotta`.
    """
    if end - start >= _SHORT:
        return False
    joined_before = start > 0 and text[start - 1:start + 1].isalnum()
    return joined_before or (end < len(text) and text[end - 1:end + 1].isalnum())


def concept_relations(arcs: Iterable[Arc], entities: Sequence[JsonObject], pairs: MentionPairs,
                      tally: Tally) -> list[JsonObject]:
    """Make relations between mentions from relations between concepts, and add `concepts`.

    Args:
        arcs: relations whose head and tail are concepts.
        entities: entities with their concepts under `identifier`.
        pairs: pairs of mentions. `closest` pairs every mention of the concept with more mentions
            with the closest mention of the other. `biobit` does this only if the head is first, as
            in Buonocore et al. `all` makes all pairs.
        tally: counts relations whose concepts have no entity, and relations without a pair.
    """
    found = []
    for arc in arcs:
        heads, tails = ([one for one in entities if _plain(concept) in _concepts(one)]
                        for concept in (arc.head, arc.tail))
        absent = [repr(concept) for concept, mentions in ((arc.head, heads), (arc.tail, tails))
                  if not mentions]
        chosen = list(dict.fromkeys(_pairs(heads, tails, pairs)))
        if absent or not chosen:
            why = f"{' and '.join(absent)}, expected concepts of entities" if absent else \
                f"{arc.head!r} and {arc.tail!r}, whose mentions do not make a pair"
            tally.lose(RELATIONS_LOST, arc.place, f"found a relation of {why} in the text",
                       arc.content)
        found += [{"head": head, "tail": tail, "type": arc.type, **arc.more,
                   "concepts": [arc.head, arc.tail]} for head, tail in chosen]
    return found


def _concepts(entity: JsonObject) -> set[str]:
    """Return the concepts of an entity; BC5CDR joins concepts by `|`, which others contain."""
    joined = _plain(str(entity.get(IDENTIFIER, "")))
    return {joined, *(part for separator in ",;|" for part in joined.split(separator))}


def _plain(concept: str) -> str:
    """Remove case and spaces: BioBIT's `C|SUB|G |1763|A` is `c|SUB|G|1763|A` in its relations."""
    return "".join(concept.casefold().split())


def _pairs(heads: Sequence[JsonObject], tails: Sequence[JsonObject],
           pairs: MentionPairs) -> Iterator[tuple[str, str]]:
    """Yield the ids of mentions that make pairs; a mention is not paired with itself."""
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
            other = min(others, key=lambda other: max(other["start"] - one["end"],
                                                      one["start"] - other["end"]))
            yield (one["id"], other["id"]) if more_heads else (other["id"], one["id"])
