"""Gold records and predictions for them, matched by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from bmtools.errors import BmtoolsError, DataError, RecordError, setting
from bmtools.records import Record, check
from bmtools.tasks.metrics.samples import TASK_METRICS
from bmtools.tasks.metrics.settings import TaskScoresConfig

_KEYS = {"relations": "relations", "labels": "multilabel", "label": "classification",
         "entities": "ner", "answers": "qa", "score": "similarity"}
"""Task by the key of its annotations; a label's score is its probability."""
_MOST_NAMED = 3


def require_same_ids(gold: Mapping[str, Record], gold_name: str, predicted: Mapping[str, Record],
                     name: str) -> None:
    """Refuse gold records without predictions, and predictions without gold records.

    Args:
        gold: records by id.
        gold_name: of their source.
        predicted: records by id.
        name: of their source.

    Raises:
        DataError: names ids that one side lacks.
    """
    for some, others, what in (
            (gold, predicted, f"no prediction for {{}} of {{}} records of {gold_name}"),
            (predicted, gold, f"{{}} of {{}} records that {gold_name} lacks")):
        if missing := [one for one in some if one not in others]:
            named = ", ".join(map(repr, missing[:_MOST_NAMED]))
            more = ", ..." if len(missing) > _MOST_NAMED else ""
            raise DataError(f"{name}: found {what.format(len(missing), len(some))} (ids {named}"
                            f"{more}), expected one prediction for each gold record")


def find_task(gold: Mapping[str, Record], predicted: Mapping[str, Record], key: str) -> str:
    """Name the task whose annotations both sides have.

    Args:
        gold: records by id.
        predicted: the same ones.
        key: of the predictions.

    Raises:
        BmtoolsError: no predictions, or of none or several tasks, so that it must be named.
    """
    if key in _KEYS:
        return _KEYS[key]
    first = next(iter(predicted.values()))
    held = first.get(key)
    if not isinstance(held, dict):
        _refuse_without(first, key)
    known = [name for name in _KEYS if name in held and name in gold[first["id"]]]
    if "label" in known and "score" in known:
        known.remove("score")
    if len(known) != 1:
        raise BmtoolsError(f"{first.place}: found {', '.join(held) or 'nothing'} under {key!r}, and "
                           f"{', '.join(known) or 'none of these'} in the gold record, expected "
                           f"one of {', '.join(_KEYS)} in both; {setting('task')} names the task")
    return _KEYS[known[0]]


def match_predictions(gold: Mapping[str, Record], predicted: Mapping[str, Record], task: str,
                      key: str) -> list[Record]:
    """Put predictions in the place of annotations, in the order of gold records.

    Args:
        gold: records by id, with the task's annotations.
        predicted: the same ones.
        task: name of the task.
        key: of the predictions: an object of them, or the task's own key.

    Raises:
        RecordError: predictions for another text, or without the task's key.
    """
    return [_predictions(record, predicted[one], task, key) for one, record in gold.items()]


def _predictions(gold: Record, record: Record, task: str, key: str) -> Record:
    """Make a record of the predictions alone."""
    own = TASK_METRICS[task].key
    held = record if key == own else record.get(key)
    if not isinstance(held, dict):
        _refuse_without(record, key)
    if own not in held:
        found = ", ".join(held) or "nothing"
        raise RecordError(record.place, f"key '{key}.{own}' is missing; found {found}; "
                          f"{setting('task')} names another task than {task}", record)
    if record["text"] != gold["text"]:
        raise RecordError(record.place, "found another text than the gold record has at "
                          f"{gold.place}; expected predictions for the same text", record)
    made = Record(id=record["id"], text=record["text"], place=record.place, **{own: held[own]})
    if own == "relations":  # these are between the prediction's entities, or the record's own
        made["entities"] = held.get("entities", record.get("entities", []))
    try:
        check(made)
        for number, answer in enumerate(made.get("answers", ())):
            if not isinstance(answer.get("score", 0), int | float):
                raise RecordError(record.place, f"key 'answers[{number}].score': found "
                                  f"{answer['score']!r}, expected a number")
    except RecordError as error:
        raise RecordError(record.place, error.reason.replace("key '", f"key '{key}.", 1)
                          if key != own else error.reason, record) from None
    return made


def choose_annotations(record: Record, key: str, config: TaskScoresConfig) -> Record:
    """Keep entities or relations of the types that are scored, those without direction oriented.

    Args:
        record: gold annotations or predictions.
        key: of its annotations.
        config: types and direction.
    """
    types = config.chosen_types
    kept = [one for one in record[key] if not types or one["type"] in types]
    if key == "relations" and config.undirected:
        order = {entity["id"]: (entity["start"], entity["end"], entity["type"])
                 for entity in record.get("entities", ()) if "id" in entity}
        kept = [{**one, **dict(zip(("head", "tail"), sorted(
            (one["head"], one["tail"]), key=order.__getitem__), strict=True))} for one in kept]
    return record.replace(**{key: kept})


def _refuse_without(record: Record, key: str) -> NoReturn:
    """Refuse a record without predictions, and name its keys that may be such."""
    held = [name for name, value in record.items() if name in _KEYS or (
        isinstance(value, dict) and not value.keys().isdisjoint(_KEYS))]
    hint = f"; {setting('predicted')} {held[0]} takes others" if held else ""
    raise RecordError(record.place, f"key {key!r} is missing, expected an object of predictions, "
                      f"as bmtools predict writes it{hint}", record)


def require_annotations(gold: Mapping[str, Record], task: str) -> None:
    """Refuse gold records without the task's annotations, or with exact answers that are none.

    Raises:
        RecordError: names the first.
    """
    key = TASK_METRICS[task].key
    for record in gold.values():
        if key not in record:
            raise RecordError(record.place, f"key {key!r} is missing; expected the gold annotation "
                              f"of {task}; {setting('task')} names another task", record)
        exact = record.get("meta", {}).get("exact_answer", [])
        if key == "answers" and not _are_answers(exact):
            raise RecordError(record.place, f"key 'meta.exact_answer': found {exact!r}, expected "
                              "spellings of an answer, or a list of spellings for each item",
                              record)


def _are_answers(exact: object) -> bool:
    return isinstance(exact, list) and all(
        isinstance(one, str) or (isinstance(one, list) and all(
            isinstance(spelling, str) for spelling in one)) for one in exact)


