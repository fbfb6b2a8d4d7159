"""Annotated records and their translations: into sentence pairs, and back with annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bmtools.errors import RecordError, Reject
from bmtools.records import Record
from bmtools.search.segment import sentence_spans
from bmtools.translation.projection.pairs import SentencePair

_LONG = 600  # characters, from which on a text is worth splitting
Segment = tuple[int, int, int, int]
"""Start and end in the source, start and end in the translation."""


@dataclass(frozen=True)
class DocumentPair:
    """A record and its translation, as sentence pairs.

    Args:
        source: with annotations.
        translation: of the source, without them.
        segments: sentences, those that an annotation crosses in one piece.
        places: of each annotated span, its segment and its number in there.
    """

    source: Record
    translation: Record
    segments: list[Segment]
    pairs: list[SentencePair]
    places: list[tuple[int, int]]


def annotated_spans(record: Record) -> list[tuple[int, int]]:
    """Return the spans of entities, part by part, and of answers with an offset."""
    spans = [(start, end) for entity in record.get("entities", ())
             for start, end in entity.get("spans") or [(entity["start"], entity["end"])]]
    return spans + [(answer["start"], answer["start"] + len(answer["text"]))
                    for answer in record.get("answers", ()) if is_located(answer)]


def is_located(answer: dict[str, Any]) -> bool:
    """Return whether an answer has an offset, and a word at it."""
    return answer.get("start") is not None and bool(answer["text"])


def pair_document(source: Record, translation: Record) -> DocumentPair:
    """Cut a record and its translation into pairs of sentences."""
    spans = annotated_spans(source)
    segments = _joined(_segments(source, translation), _hulls(source))
    inside: list[list[tuple[int, int]]] = [[] for _ in segments]
    places = []
    for start, end in spans:
        at = next(number for number, segment in enumerate(segments)
                  if segment[0] <= start and end <= segment[1])
        places.append((at, len(inside[at])))
        inside[at].append((start - segments[at][0], end - segments[at][0]))
    pairs = [SentencePair(source["text"][start:end], translation["text"][first:last], tuple(own))
             for (start, end, first, last), own in zip(segments, inside, strict=True)]
    return DocumentPair(source, translation, segments, pairs, places)


def _hulls(record: Record) -> list[tuple[int, int]]:
    """Return the hulls of all annotations, which no border of sentences may cross."""
    return [(entity["start"], entity["end"]) for entity in record.get("entities", ())] + \
        annotated_spans(record.without("entities"))


def _segments(source: Record, translation: Record) -> list[Segment]:
    """Return sentence pairs as the translation noted them, or by splitting both texts.

    Texts that split into other numbers of sentences are one pair.
    """
    left, right = source["text"], translation["text"]
    whole = [(0, len(left), 0, len(right))]
    noted = translation.get("meta", {}).get("translation", {}).get("sentence_spans", {}).get("text")
    if noted:
        # Text between sentences is nobody's: an annotation there joins its neighbours.
        return [(start, end, first, last) for start, end, first, last in noted]
    if len(left) < _LONG:
        return whole
    sentences, translated = (list(sentence_spans(record["text"], record.get("lang") or "en", None))
                             for record in (source, translation))
    if len(sentences) != len(translated):
        return whole
    return [(*one, *other) for one, other in zip(sentences, translated, strict=True)]


def _joined(segments: Sequence[Segment], hulls: Iterable[tuple[int, int]]) -> list[Segment]:
    """Unite the sentences that an annotation crosses."""
    joined = list(segments)
    for start, end in hulls:
        touched = [one for one in joined if one[0] < end and start < one[1]]
        low = min([start, *(one[0] for one in touched)])
        high = max([end, *(one[1] for one in touched)])
        united = (low, high, min((one[2] for one in touched), default=0),
                  max((one[3] for one in touched), default=0))
        joined = sorted([one for one in joined if one not in touched] + [united])
    return joined


def pair_records(sources: Iterable[Record], translations: Iterable[Record],
                 reject: Reject) -> Iterator[tuple[Record, Record]]:
    """Pair records with their translations by id, in the order of the sources.

    All translations are held in memory.

    Args:
        sources: with annotations.
        translations: with the same ids.
        reject: receives records that one side lacks, and those whose id comes again.
    """
    waiting: dict[str, Record] = {}
    for record in translations:
        if record["id"] in waiting:
            reject(RecordError(record.place, f"found the id {record['id']!r} again, which "
                               f"{waiting[record['id']].place} has; expected one translation of a "
                               "record", record))
        waiting.setdefault(record["id"], record)
    used: dict[str, str] = {}
    for record in sources:
        translation = waiting.get(record["id"])
        if record["id"] in used:
            reject(RecordError(record.place, f"found the id {record['id']!r} again, which "
                               f"{used[record['id']]} has; expected ids that differ", record))
        elif translation is None:
            reject(RecordError(record.place, f"found no translation with the id "
                               f"{record['id']!r}; translate it, or leave it out", record))
        else:
            yield record, translation
        used.setdefault(record["id"], record.place)
    for record in waiting.values():
        if record["id"] not in used:
            reject(RecordError(record.place, f"found a translation with the id {record['id']!r}, "
                               "which no source record has", record))
