"""Spans for review by a person: written with both sentences, and read back with decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

from bmtools.errors import DataError
from bmtools.io.jsonl import read_objects
from bmtools.records import JsonObject, converted
from bmtools.translation.projection.confidence import Vote
from bmtools.translation.projection.documents import DocumentPair
from bmtools.translation.projection.pairs import Projection, Span

ACCEPTED = "accepted"
"""Key of an item's decision: offsets or words in the target, or null for no place."""
APPLIED = "decisions applied"
UNDECIDED = "spans in the reviewed files without a decision"


_Key = tuple[str, int, int]


class _Candidate(TypedDict):
    method: str
    start: int
    end: int
    score: float


class ReviewItem(TypedDict):
    """A span to review, one line of the review file; offsets count characters of a sentence.

    `span` is a place in `source`, and `at` is the offset of `source` in its record. `proposed` is a
    place in `target`, or null if no method found one. `accepted`, the decision, is also a place in
    `target` or null, or words that occur once in the target.
    """

    id: str
    type: str
    at: int
    source: str
    span: tuple[int, int]
    mention: str
    target: str
    proposed: tuple[int, int] | None
    words: str
    confidence: float
    candidates: list[_Candidate]
    accepted: NotRequired[tuple[int, int] | str | None]


def review_items(document: DocumentPair, votes: Sequence[Sequence[Vote]],
                 min_confidence: float) -> Iterator[ReviewItem]:
    """Yield the spans of a document without a place or below the minimum confidence."""
    source = document.source
    kinds = [entity["type"] for entity in source.get("entities", ())
             for _ in entity.get("spans") or [entity]]
    for which, (at, number) in enumerate(document.places):
        vote, pair = votes[at][number], document.pairs[at]
        if vote.is_decided or not (vote.place is None or vote.place.score < min_confidence):
            continue
        start, end = pair.spans[number]
        place = (vote.place.start, vote.place.end) if vote.place else None
        yield {"id": source["id"], "type": kinds[which] if which < len(kinds) else "answer",
               "at": document.segments[at][0], "source": pair.source, "span": (start, end),
               "mention": pair.source[start:end], "target": pair.target, "proposed": place,
               "words": pair.target[slice(*place)] if place else "",
               "confidence": round(vote.place.score, 4) if vote.place else 0.0,
               "candidates": [{"method": name, "start": one.start, "end": one.end,
                               "score": round(one.score, 4)}
                              for name, one in vote.candidates.items() if one]}


class Decisions:
    """Places that a person decided on.

    Args:
        items: file and line of each item, and the item, as from `read_objects`.

    Raises:
        DataError: an item is malformed, or its decision does not fit its sentence.
    """

    def __init__(self, items: Iterable[tuple[str, JsonObject]]) -> None:
        self.undecided = 0
        self._used: set[_Key] = set()
        self._decisions: dict[_Key, tuple[str, ReviewItem, Span | None]] = {}
        for place, content in items:
            item: ReviewItem = converted(content, ReviewItem, place)
            if ACCEPTED not in item:
                self.undecided += 1
                continue
            key = _key(item["id"], item["at"], item["span"])
            if key in self._decisions:
                raise DataError(f"{place}: found the span {item['mention']!r} of {item['id']!r} "
                                f"again, it is already in {self._decisions[key][0]}; remove one "
                                "of them")
            self._decisions[key] = place, item, _decision(item, place)

    @classmethod
    def read(cls, names: Sequence[str]) -> Decisions:
        """Read review files; an empty file has no decisions.

        Raises:
            DataError: see `Decisions`.
        """
        return cls(read_objects(*names))

    def apply(self, document: DocumentPair, votes: Sequence[Sequence[Vote]],
              counts: Counter[str]) -> list[list[Vote]]:
        """Replace the places that methods chose by the decided places.

        Args:
            document: document with its sentences.
            votes: votes on each span of each pair.
            counts: counts decisions applied.

        Raises:
            DataError: a decision was made on other sentences.
        """
        applied = [list(own) for own in votes]
        for (at, *_), pair, own in zip(document.segments, document.pairs, applied, strict=True):
            for number, span in enumerate(pair.spans):
                key = _key(document.source["id"], at, span)
                if key not in self._decisions:
                    continue
                place, item, decided = self._decisions[key]
                for name, found, text in (("source", item["source"], pair.source),
                                          ("target", item["target"], pair.target)):
                    if found != text:
                        raise DataError(f"{place}: found the {name} {found!r:.60}, but the records "
                                        f"have {text!r:.60}; review them again")
                self._used.add(key)
                own[number] = replace(own[number], is_decided=True,
                                      place=decided and Projection(*decided, 1.0))
                counts[APPLIED] += 1
        return applied

    def require_all_used(self) -> None:
        """Raise an error for a decision on a span that no record has.

        Raises:
            DataError: names the first such decision.
        """
        for key, (place, item, _) in self._decisions.items():
            if key in self._used:
                continue
            raise DataError(f"{place}: found a decision on {item['mention']!r} at "
                            f"{item['at'] + item['span'][0]} of the record {item['id']!r}, which "
                            "has no such annotation; use the records that were reviewed")


def _key(record_id: str, at: int, span: Sequence[int]) -> _Key:
    return record_id, at + span[0], at + span[1]


def _decision(item: ReviewItem, place: str) -> Span | None:
    """Return the decided place, checked against the target.

    Raises:
        DataError: offsets outside the target, or words that do not occur exactly once in it.
    """
    found, target = item["accepted"], item["target"]
    if found is None:
        return None
    if isinstance(found, str):
        times = target.count(found) if found.strip() else 0
        if times != 1:
            raise DataError(f"{place}: key '{ACCEPTED}': found {found!r}, {times} times in the "
                            "target, expected words that occur once, or offsets")
        start = target.index(found)
        return start, start + len(found)
    start, end = found
    if not 0 <= start < end <= len(target) or not target[start:end].strip():
        raise DataError(f"{place}: key '{ACCEPTED}': found {list(found)}, expected the start and "
                        f"end of some words in the target's {len(target)} characters, or null")
    return start, end
