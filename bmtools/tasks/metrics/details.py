"""Lines of details: what is wrong with each mention or relation, and each record's other values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

from bmtools.records import JsonObject
from bmtools.tasks.metrics.answers import language_of, match_answer
from bmtools.tasks.metrics.counts import rounded
from bmtools.tasks.metrics.span_errors import CORRECT, MISSED, SPURIOUS, pair_mentions
from bmtools.tasks.metrics.spans import Typed


def detail_lines(gold: Sequence[JsonObject], predicted: Sequence[JsonObject],
                 key: str) -> Iterator[JsonObject]:
    """Describe predictions one by one.

    Args:
        gold: records.
        predicted: the same ones with predictions in place of annotations.
        key: of the annotations.

    Yields:
        of mentions, relations and label sets a line for each error: `id`, `kind`, and what is
        `gold` and `predicted`; of labels, scores and answers a line for each record: `id`, `gold`,
        `predicted` and, but for scores, how well they agree.
    """
    for one, other in zip(gold, predicted, strict=True):
        yield from _LINES[key](one, other)


def _mention_lines(gold: JsonObject, predicted: JsonObject) -> Iterator[JsonObject]:
    sides = ([(0, one["start"], one["end"], one["type"]) for one in record["entities"]]
             for record in (gold, predicted))
    for kind, _, one, other in pair_mentions(*sides):
        if kind != CORRECT:
            yield {"id": gold["id"], "kind": kind, "gold": _mention(one, gold["text"]),
                   "predicted": _mention(other, gold["text"])}


def _mention(mention: Typed | None, text: str) -> JsonObject | None:
    if mention is None:
        return None
    start, end, kind = mention
    return {"start": start, "end": end, "type": kind, "text": text[start:end]}


def _member_lines(members: Callable[[JsonObject, JsonObject], Iterable[Hashable]],
                  gold: JsonObject, predicted: JsonObject) -> Iterator[JsonObject]:
    """Describe the members of one of two sets that the other one does not contain.

    Args:
        members: lists what a record has, in terms of the gold record's.
        gold: record.
        predicted: record.
    """
    expected, found = (dict.fromkeys(members(record, gold)) for record in (gold, predicted))
    yield from ({"id": gold["id"], "kind": MISSED, "gold": one, "predicted": None}
                for one in expected if one not in found)
    yield from ({"id": gold["id"], "kind": SPURIOUS, "gold": None, "predicted": one}
                for one in found if one not in expected)


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


def _label_line(gold: JsonObject, predicted: JsonObject) -> Iterator[JsonObject]:
    yield {"id": gold["id"], "gold": gold["label"], "predicted": predicted["label"],
           "correct": gold["label"] == predicted["label"]}


def _score_line(gold: JsonObject, predicted: JsonObject) -> Iterator[JsonObject]:
    yield {"id": gold["id"], "gold": gold["score"], "predicted": predicted["score"]}


def _answer_line(gold: JsonObject, predicted: JsonObject) -> Iterator[JsonObject]:
    texts, found = ([answer["text"] for answer in record["answers"]]
                    for record in (gold, predicted))
    match = match_answer(texts, found[0] if found else "", language_of(gold))
    yield {"id": gold["id"], "gold": texts, "predicted": found,
           "exact_match": rounded(match.exact), "f1": rounded(match.f1)}


_LINES: dict[str, Callable[[JsonObject, JsonObject], Iterator[JsonObject]]] = {
    "entities": _mention_lines, "relations": partial(_member_lines, relations_of),
    "labels": partial(_member_lines, lambda record, gold: sorted(record["labels"])),
    "label": _label_line, "score": _score_line, "answers": _answer_line}
