"""Kinds of error, and lines of details: what is wrong with each mention, relation or answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from bmtools.records import JsonObject
from bmtools.tasks.metrics.spans import Mention, Typed

CORRECT, BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS = (
    "correct", "boundary", "type", "boundary_and_type", "missed", "spurious")
KINDS = (CORRECT, BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS)
"""Nothing is wrong, borders alone, the type alone, or both; no counterpart among predictions, and
none among gold mentions."""
_PREFERRED = (TYPE, BOUNDARY, BOTH)
NONE = "-"
"""Type of what has no counterpart."""


class Pair(NamedTuple):
    """A gold mention and its prediction, either of which may be absent.

    Args:
        kind: one of `KINDS`.
        text: number of the text that they are in.
        gold: start, end and type; None where the prediction is spurious.
        predicted: likewise; None where the gold mention is missed.
    """

    kind: str
    text: int
    gold: Typed | None
    predicted: Typed | None

    @property
    def types(self) -> tuple[str, str]:
        """Types of both; NONE where one is absent."""
        return (self.gold[2] if self.gold else NONE,
                self.predicted[2] if self.predicted else NONE)


def pair_mentions(gold: Iterable[Mention], predicted: Iterable[Mention]) -> list[Pair]:
    """Pair gold mentions with predictions one to one, text by text, and say what is wrong.

    Equal mentions are paired first, then those of equal borders, then overlapping ones of equal
    type, then overlapping ones; of several the pair that shares the most characters comes first,
    and of those the first in the text. Each gold mention and each prediction is in one pair, so
    that the counts of kinds add up to support and to the number of predictions.
    """
    sides: dict[int, tuple[set[Typed], set[Typed]]] = defaultdict(lambda: (set(), set()))
    for number, mentions in enumerate((gold, predicted)):
        for text, start, end, kind in mentions:
            sides[text][number].add((start, end, kind))
    return [Pair(kind, text, *pair) for text, (expected, found) in sides.items()
            for kind, *pair in _pair(expected, found)]


def _pair(expected: set[Typed],
          found: set[Typed]) -> Iterator[tuple[str, Typed | None, Typed | None]]:
    yield from ((CORRECT, one, one) for one in sorted(expected & found))
    missed, spurious = expected - found, found - expected
    candidates = []
    for one, other in product(missed, spurious):
        shared = min(one[1], other[1]) - max(one[0], other[0])
        if shared > 0:
            kind = TYPE if one[:2] == other[:2] else BOUNDARY if one[2] == other[2] else BOTH
            candidates.append((_PREFERRED.index(kind), -shared, one, other))
    for rank, _, one, other in sorted(candidates):
        if one in missed and other in spurious:
            missed.remove(one)
            spurious.remove(other)
            yield _PREFERRED[rank], one, other
    yield from ((MISSED, one, None) for one in sorted(missed))
    yield from ((SPURIOUS, None, one) for one in sorted(spurious))


def count_errors(pairs: Iterable[Pair]) -> dict[str, int]:
    """Count pairs by kind; all kinds are there."""
    counts = Counter(pair.kind for pair in pairs)
    return {kind: counts[kind] for kind in KINDS}


def count_confusions(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count pairs by the gold type or label, then by the predicted one."""
    table: dict[str, dict[str, int]] = defaultdict(dict)
    for (gold, predicted), count in sorted(Counter(pairs).items()):
        table[gold][predicted] = count
    return dict(table)


def detail_lines(gold: Sequence[JsonObject], predicted: Sequence[JsonObject],
                 key: str) -> Iterator[JsonObject]:
    """Yield a line for each error: `id`, and what is `gold` and `predicted`.

    Mentions are paired, and lines have the `kind` of error; of other annotations there is a line
    for each record whose gold and predicted ones differ.

    Args:
        gold: records.
        predicted: the same ones with predictions in place of annotations.
        key: of the annotations.
    """
    for one, other in zip(gold, predicted, strict=True):
        if key == "entities":
            sides = ([(0, mention["start"], mention["end"], mention["type"])
                      for mention in record["entities"]] for record in (one, other))
            yield from ({"id": one["id"], "kind": pair.kind,
                         "gold": _mention(pair.gold, one["text"]),
                         "predicted": _mention(pair.predicted, one["text"])}
                        for pair in pair_mentions(*sides) if pair.kind != CORRECT)
        elif (right := _value(one, one, key)) != (found := _value(other, one, key)):
            yield {"id": one["id"], "gold": right, "predicted": found}


def _value(record: JsonObject, gold: JsonObject, key: str) -> object:
    """Return the annotation of a record in a form that can be compared."""
    if key == "relations":
        return sorted({*relations_of(record, gold)}, key=str)
    if key == "answers":
        return [answer["text"] for answer in record["answers"]]
    return sorted({*record["labels"]}) if key == "labels" else record[key]


def _mention(mention: Typed | None, text: str) -> JsonObject | None:
    if mention is None:
        return None
    start, end, kind = mention
    return {"start": start, "end": end, "type": kind, "text": text[start:end]}


def relations_of(record: JsonObject, gold: JsonObject) -> Iterator[tuple[Hashable, Hashable, str]]:
    """List head, tail and type of relations; other ids of the same mentions become the gold ones.

    A mention that gold lacks stays start, end and type.
    """
    known, own = _mentions_by_id(gold), _mentions_by_id(record)
    ids = {mention: name for name, mention in known.items()}
    for relation in record["relations"]:
        head, tail = (name if known.get(name) == own[name] else ids.get(own[name], own[name])
                      for name in (relation["head"], relation["tail"]))
        yield head, tail, relation["type"]


def _mentions_by_id(record: JsonObject) -> dict[str, Typed]:
    return {one["id"]: (one["start"], one["end"], one["type"])
            for one in record.get("entities", ()) if "id" in one}


