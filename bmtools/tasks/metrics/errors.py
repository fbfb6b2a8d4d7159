"""Kinds of error, lines with details, and the calibration of scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from bmtools.records import JsonObject
from bmtools.tasks.metrics.spans import Mention, Scores, Typed, rounded

CORRECT, BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS = (
    "correct", "boundary", "type", "boundary_and_type", "missed", "spurious")
KINDS = (CORRECT, BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS)
"""Nothing is wrong; the boundary is wrong, the type, or both; the gold mention has no prediction
(missed), or the prediction has no gold mention (spurious)."""
_PREFERRED = (TYPE, BOUNDARY, BOTH)
NONE = "-"
"""Type shown for the absent side of a missed or spurious mention."""


class Pair(NamedTuple):
    """A gold mention and its prediction; one may be absent.

    Args:
        kind: one of `KINDS`.
        text: number of the text that contains them.
        gold: start, end and type; None if the prediction is spurious.
        predicted: start, end and type; None if the gold mention is missed.
    """

    kind: str
    text: int
    gold: Typed | None
    predicted: Typed | None

    @property
    def types(self) -> tuple[str, str]:
        """Types of the gold mention and of the prediction; NONE for an absent one."""
        return (self.gold[2] if self.gold else NONE,
                self.predicted[2] if self.predicted else NONE)


def pair_mentions(gold: Iterable[Mention], predicted: Iterable[Mention]) -> list[Pair]:
    """Pair gold mentions with predictions one to one, text by text, and classify the errors.

    Equal mentions are paired first, then mentions with equal boundaries, then overlapping
    mentions with equal types, then other overlapping mentions. Within each of these groups, the
    pair that shares the most characters comes first, then the first pair in the text. Each gold
    mention and each prediction is in exactly one pair, so the counts of the kinds add up to the
    support and to the number of predictions.
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
    """Count pairs by kind, including kinds with count 0."""
    counts = Counter(pair.kind for pair in pairs)
    return {kind: counts[kind] for kind in KINDS}


def count_confusions(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count pairs by gold type or label, then by predicted type or label."""
    table: dict[str, dict[str, int]] = defaultdict(dict)
    for (gold, predicted), count in sorted(Counter(pairs).items()):
        table[gold][predicted] = count
    return dict(table)


def detail_lines(gold: Sequence[JsonObject], predicted: Sequence[JsonObject],
                 key: str) -> Iterator[JsonObject]:
    """Yield a line for each error, with `id`, `gold` and `predicted`.

    Mentions are paired, and each line has the `kind` of error. For other annotations there is a
    line for each record whose gold and predicted annotations differ.

    Args:
        gold: annotated records.
        predicted: the same records with predictions in place of annotations.
        key: key of the annotations.
    """
    for one, other in zip(gold, predicted, strict=True):
        if key == "entities":
            sides = ([(0, *span) for span in typed_spans(record)] for record in (one, other))
            yield from ({"id": one["id"], "kind": pair.kind,
                         "gold": _mention(pair.gold, one["text"]),
                         "predicted": _mention(pair.predicted, one["text"])}
                        for pair in pair_mentions(*sides) if pair.kind != CORRECT)
        elif (right := _value(one, one, key)) != (found := _value(other, one, key)):
            yield {"id": one["id"], "gold": right, "predicted": found}


def typed_spans(record: JsonObject) -> list[Typed]:
    """List start, end and type of a record's entities."""
    return [(one["start"], one["end"], one["type"]) for one in record["entities"]]


def _value(record: JsonObject, gold: JsonObject, key: str) -> object:
    """Return a record's annotation in a form that can be compared."""
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
    """Yield head, tail and type of each relation, with the ids of the gold record's mentions.

    A mention that the gold record does not contain is represented by its start, end and type.
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


BINS = 10
PRECISION = 0.95


def calibrate(scores: Sequence[object], correct: Sequence[bool]) -> Scores:
    """Compare scores of predictions, as probabilities, with the share of correct predictions.

    Source: Guo et al. 2017, section 2: reliability diagram and expected calibration error, over
    bins of equal width.

    Args:
        scores: score of each prediction; a value that is not a probability, such as None, means
            that the prediction has no score.
        correct: whether each prediction is correct.

    Returns:
        an empty object if any prediction has no score. Otherwise `calibration` with the `error`,
        the mean `score`, the `precision`, and the `bins` that are not empty. `kept` is the largest
        share of the predictions, in order of their scores, that reaches a precision of 0.95, and
        `threshold` is the minimum score of these predictions.
    """
    if not scores or not all(isinstance(score, int | float) and 0 <= score <= 1
                             for score in scores):
        return {}
    values, right = np.array(scores, dtype=float), np.array(correct, dtype=float)
    bins = _bins(values, right)
    share, threshold = kept_at_precision(values, right)
    error = sum(one["predictions"] * abs(one["score"] - one["precision"]) for one in bins)
    return {"calibration": {
        "error": rounded(error / len(values)), "score": rounded(values.mean()),
        "precision": rounded(right.mean()), "kept": rounded(share),
        "threshold": None if threshold is None else rounded(threshold),
        "bins": [{name: rounded(value) if isinstance(value, float) else value
                  for name, value in one.items()} for one in bins]}}


def _bins(scores: np.ndarray, correct: np.ndarray) -> list[Scores]:
    """Average scores and correctness in bins of equal width; the last one includes 1."""
    numbers = np.minimum((scores * BINS).astype(int), BINS - 1)
    return [{"from": number / BINS, "predictions": int(own.sum()),
             "score": float(scores[own].mean()), "precision": float(correct[own].mean())}
            for number in range(BINS) if (own := numbers == number).any()]


def kept_at_precision(scores: np.ndarray, correct: np.ndarray,
                      precision: float = PRECISION) -> tuple[float, float | None]:
    """Find the lowest score threshold where predictions reach a precision.

    Returns:
        share of predictions with at least this score, and the score; 0 and None if no threshold
        reaches the precision.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, right = scores[order], correct[order].cumsum()
    counts = np.arange(1, len(ranked) + 1)
    # Predictions with equal scores are kept or dropped together.
    possible = (right >= precision * counts) & np.append(ranked[1:] != ranked[:-1], True)
    if not possible.any():
        return 0.0, None
    last = int(np.flatnonzero(possible)[-1])
    return (last + 1) / len(ranked), float(ranked[last])
