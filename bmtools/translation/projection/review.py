"""Spans that a person looks at: written out with both sentences, and read back with decisions."""

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
"""Key of an item that holds the decision: offsets or words in the target, or null for no place."""
APPLIED = "decisions applied"
UNDECIDED = "spans in the reviewed files without a decision"


_Key = tuple[str, int, int]


class _Candidate(TypedDict):
    method: str
    start: int
    end: int
    score: float


class ReviewItem(TypedDict):
    """A span to look at, a line of the review file; offsets count characters of a sentence.

    `span` is a place in `source`, where `at` is the offset of the source in its record; `proposed`
    is one in `target`, null where no method found any; so is `accepted`, the decision, which may
    also be words that the target has once.
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
    """Yield the spans of a document that have no place, or one that is not sure enough."""
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
        items: after the place of each, as from `read_objects`.

    Raises:
        DataError: an item that is none, or whose decision does not fit its sentence.
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
                                f"again, which {self._decisions[key][0]} has; leave one of them "
                                "out")
            self._decisions[key] = place, item, _decision(item, place)

    @classmethod
    def read(cls, names: Sequence[str]) -> Decisions:
        """Read review files; an empty one has no decisions.

        Raises:
            DataError: see `Decisions`.
        """
        return cls(read_objects(*names))

    def apply(self, document: DocumentPair, votes: Sequence[Sequence[Vote]],
              counts: Counter[str]) -> list[list[Vote]]:
        """Put the decided places of a document in the place of those that methods chose.

        Args:
            document: its sentences.
            votes: on each span of each pair.
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
        """Refuse decisions on spans that no record has.

        Raises:
            DataError: names the first one.
        """
        for key, (place, item, _) in self._decisions.items():
            if key in self._used:
                continue
            raise DataError(f"{place}: found a decision on {item['mention']!r} at "
                            f"{item['at'] + item['span'][0]} of the record {item['id']!r}, which "
                            "has no such annotation; give the records that were reviewed")


def _key(record_id: str, at: int, span: Sequence[int]) -> _Key:
    return record_id, at + span[0], at + span[1]


def _decision(item: ReviewItem, place: str) -> Span | None:
    """Return the decided place, checked against the target.

    Raises:
        DataError: offsets outside the target, or words that it has not exactly once.
    """
    found, target = item["accepted"], item["target"]
    if found is None:
        return None
    if isinstance(found, str):
        times = target.count(found) if found.strip() else 0
        if times != 1:
            raise DataError(f"{place}: key '{ACCEPTED}': found {found!r}, which the target has "
                            f"{times} times, expected words that it has once, or offsets")
        start = target.index(found)
        return start, start + len(found)
    start, end = found
    if not 0 <= start < end <= len(target) or not target[start:end].strip():
        raise DataError(f"{place}: key '{ACCEPTED}': found {list(found)}, expected the start and "
                        f"end of some words in the target's {len(target)} characters, or null")
    return start, end
