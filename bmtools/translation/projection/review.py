"""Spans that a person looks at: written out with both sentences, and read back with decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from bmtools.errors import DataError
from bmtools.io.jsonl import read_objects
from bmtools.records import converted
from bmtools.translation.projection.links import Span
from bmtools.translation.projection.pairs import Projection, SentencePair

ACCEPTED = "accepted"
"""Key of an item that holds the decision: offsets or words in the target, or null for no place."""
APPLIED = "decisions applied"
ABSENT = "spans left out by a decision"
UNDECIDED = "spans to review without a decision"


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


def review_item(record_id: str, kind: str, at: int, pair: SentencePair, number: int,
                proposed: Projection | None, confidence: float,
                candidates: Mapping[str, Projection | None]) -> ReviewItem:
    """Describe a span for its review.

    Args:
        record_id: of its record.
        kind: type of the annotation, for people.
        at: offset of the pair's source in the text of the record.
        pair: its sentences.
        number: of the span in the pair.
        proposed: its place so far.
        confidence: of this place, 0 to 1.
        candidates: what each method found.
    """
    start, end = pair.spans[number]
    place = (proposed.start, proposed.end) if proposed else None
    return {"id": record_id, "type": kind, "at": at, "source": pair.source, "span": (start, end),
            "mention": pair.source[start:end], "target": pair.target, "proposed": place,
            "words": pair.target[slice(*place)] if place else "",
            "confidence": round(confidence, 4),
            "candidates": [{"method": name, "start": one.start, "end": one.end,
                            "score": round(one.score, 4)}
                           for name, one in candidates.items() if one]}


class Decisions:
    """Places that a person decided on.

    Args:
        items: after the place of each, as from `read_objects`.

    Raises:
        DataError: an item that is none, or whose decision does not fit its sentence.
    """

    def __init__(self, items: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self.undecided = 0
        self._waiting: dict[tuple[str, int, int], tuple[str, ReviewItem]] = {}
        self._places: dict[tuple[str, int, int], Span | None] = {}
        for place, content in items:
            item: ReviewItem = converted(content, ReviewItem, place)
            if ACCEPTED not in item:
                self.undecided += 1
                continue
            key = _key(item["id"], item["at"], item["span"])
            if key in self._waiting:
                raise DataError(f"{place}: found the span {item['mention']!r} of {item['id']!r} "
                                f"again, which {self._waiting[key][0]} has; leave one of them out")
            self._places[key] = _decision(item, place)
            self._waiting[key] = place, item

    @classmethod
    def read(cls, names: Sequence[str]) -> Decisions:
        """Read review files; an empty one has no decisions.

        Raises:
            DataError: see `Decisions`.
        """
        return cls(read_objects(*names))

    def applies(self, record_id: str, at: int, pair: SentencePair, number: int) -> bool:
        """Tell whether there is a decision on a span, and take note that it was used.

        Raises:
            DataError: it was made on other sentences.
        """
        key = _key(record_id, at, pair.spans[number])
        if key in self._waiting:
            place, item = self._waiting.pop(key)
            for name, text in (("source", pair.source), ("target", pair.target)):
                if item[name] != text:  # type: ignore[literal-required]
                    raise DataError(f"{place}: found the {name} {item[name]!r:.60}, "  # type: ignore[literal-required]
                                    f"but the records have {text!r:.60}; review them again")
        return key in self._places

    def place(self, record_id: str, at: int, pair: SentencePair,
              number: int) -> Projection | None:
        """Return the place decided on; None where the annotation has none."""
        place = self._places[_key(record_id, at, pair.spans[number])]
        return Projection(*place, 1.0) if place else None

    def require_all_used(self) -> None:
        """Refuse decisions on spans that no record has.

        Raises:
            DataError: names the first one.
        """
        for place, item in self._waiting.values():
            raise DataError(f"{place}: found a decision on {item['mention']!r} at "
                            f"{item['at'] + item['span'][0]} of the record {item['id']!r}, which "
                            "has no such annotation; give the records that were reviewed")


def _key(record_id: str, at: int, span: Sequence[int]) -> tuple[str, int, int]:
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
