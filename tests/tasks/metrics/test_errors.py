from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from simple_task_scores import score_spans

from bmtools.errors import DataError
from bmtools.tasks.metrics.errors import (
    BOTH,
    BOUNDARY,
    CORRECT,
    MISSED,
    NONE,
    SPURIOUS,
    TYPE,
    count_confusions,
    count_errors,
    detail_lines,
    pair_mentions,
)
from bmtools.tasks.metrics.score_tasks import Predictions, task_scores
from bmtools.tasks.metrics.spans import Mention

Line = dict[str, Any]
TEXT = "il cuore pompa il sangue"
CUORE = {"start": 3, "end": 8, "type": "ORGAN", "text": "cuore"}
SANGUE = {"start": 18, "end": 24, "type": "FLUID", "text": "sangue"}
IDS = [{**CUORE, "id": "T1"}, {**SANGUE, "id": "T2"}]


def relation(head: str, tail: str) -> Line:
    return {"head": head, "tail": tail, "type": "MOVES"}


@pytest.mark.parametrize(("key", "gold", "predicted", "lines"), [
    ("entities", [CUORE, SANGUE], [CUORE, {**SANGUE, "end": 23, "text": "sangu"}],
     [{"kind": "boundary", "gold": SANGUE, "predicted": {**SANGUE, "end": 23, "text": "sangu"}}]),
    ("entities", [CUORE], [SANGUE],
     [{"kind": "missed", "gold": CUORE, "predicted": None},
      {"kind": "spurious", "gold": None, "predicted": SANGUE}]),
    ("entities", [CUORE], [CUORE], []),
    ("relations", [relation("T1", "T2")], [relation("T2", "T1")],
     [{"gold": [("T1", "T2", "MOVES")], "predicted": [("T2", "T1", "MOVES")]}]),
    ("labels", ["a", "b"], ["c", "b"], [{"gold": ["a", "b"], "predicted": ["b", "c"]}]),
    ("labels", ["a", "b"], ["b", "a"], []),
    ("label", "a", "b", [{"gold": "a", "predicted": "b"}]), ("label", "a", "a", []),
    ("score", 1.5, 2.0, [{"gold": 1.5, "predicted": 2.0}]),
    ("answers", [{"text": "il cuore"}], [{"text": "cuore"}, {"text": "sangue"}],
     [{"gold": ["il cuore"], "predicted": ["cuore", "sangue"]}]),
])
def test_each_error_has_a_line_of_details(key: str, gold: Any, predicted: Any,
                                          lines: list[Line]) -> None:
    record = {"id": "7", "text": TEXT, **({"entities": IDS} if key == "relations" else {})}
    assert [*detail_lines([{**record, key: gold}], [{**record, key: predicted}], key)] == [
        {"id": "7", **line} for line in lines]


def test_details_and_error_counts_agree(tmp_path: Path) -> None:
    gold = [{"id": str(number), "text": TEXT, "entities": [CUORE, SANGUE]} for number in range(3)]
    changes: list[list[Line]] = [[CUORE], [{**CUORE, "type": "FLUID"}, SANGUE], [CUORE, SANGUE]]
    found = [{**record, "predicted": {"entities": entities}}
             for record, entities in zip(gold, changes, strict=True)]
    path = tmp_path / "details.jsonl"
    [line, _] = [one for one in task_scores(
        gold, [Predictions(name, found, name) for name in "ab"], details=str(path))
        if "task" in one]
    written = [json.loads(one) for one in path.read_text().splitlines()]
    assert [(one["model"], one["id"], one["kind"]) for one in written] == [
        (model, *rest) for model in "ab" for rest in (("0", "missed"), ("1", "type"))]
    assert line["errors"] == {"correct": 4, "boundary": 0, "type": 1, "boundary_and_type": 0,
                              "missed": 1, "spurious": 0}


@pytest.mark.parametrize(("keys", "message"), [
    ({"label": "a"}, "negative: found 'no', expected a, b"),
    ({"entities": []}, "negative: found 'no', expected none, as entities have no classes"),
])
def test_negative_class_must_be_a_known_label(keys: Line, message: str) -> None:
    gold = [{"id": "0", "text": TEXT, **keys}]
    other = {"label": "b"} if "label" in keys else keys
    with pytest.raises(DataError, match=message):
        task_scores(gold, [Predictions("m", [{**gold[0], "predicted": other}], "m")],
                    negative="no")


def random_mentions(rng: random.Random, most: int) -> list[Mention]:
    starts = [rng.randrange(12) for _ in range(rng.randint(0, most))]
    return [(rng.randrange(2), start, start + rng.randint(1, 6), rng.choice("XY"))
            for start in starts]


@pytest.mark.parametrize(("found", "kinds"), [
    ([(0, 4, "X")], [(CORRECT, "X", "X")]),
    ([(0, 4, "Y")], [(TYPE, "X", "Y")]),
    ([(1, 4, "X")], [(BOUNDARY, "X", "X")]),
    ([(3, 9, "Y")], [(BOTH, "X", "Y")]),
    ([(4, 9, "X")], [(MISSED, "X", None), (SPURIOUS, None, "X")]),
    ([(0, 4, "X"), (0, 4, "Y")], [(CORRECT, "X", "X"), (SPURIOUS, None, "Y")]),
    ([(0, 3, "X"), (0, 4, "Y")], [(TYPE, "X", "Y"), (SPURIOUS, None, "X")]),
    ([(0, 1, "X"), (0, 3, "X")], [(BOUNDARY, "X", "X"), (SPURIOUS, None, "X")]),
    ([], [(MISSED, "X", None)]),
])
def test_kinds_of_error_are_recognized(found: list[tuple[int, int, str]], kinds: list[Any]) -> None:
    pairs = pair_mentions([("a", 0, 4, "X")], [("a", *one) for one in found])
    assert [(pair.kind, pair.gold and pair.gold[2], pair.predicted and pair.predicted[2])
            for pair in pairs] == kinds
    assert {pair.text for pair in pairs} == {"a"}
    assert [pair.predicted for pair in pairs if pair.predicted] == sorted(
        found, key=[pair.predicted for pair in pairs].index)
    elsewhere = pair_mentions([("a", 0, 4, "X")], [("b", *one) for one in found])
    assert {pair.kind for pair in elsewhere} <= {MISSED, SPURIOUS}


def test_errors_add_up_to_support_and_predictions() -> None:
    rng = random.Random(2)
    for _ in range(200):
        gold, found = random_mentions(rng, 8), random_mentions(rng, 8)
        errors = count_errors(pair_mentions(gold, found))
        strict = score_spans(gold, found)[0]
        assert errors[CORRECT] == strict["correct"]
        assert sum(errors.values()) - errors[SPURIOUS] == strict["support"]
        assert sum(errors.values()) - errors[MISSED] == strict["predicted"]
        confusions = count_confusions(pair.types for pair in pair_mentions(gold, found))
        for kind in "XY":
            assert sum(confusions.get(kind, {}).values()) == \
                sum(one[3] == kind for one in set(gold))
        assert sum(confusions.get(NONE, {}).values()) == errors[SPURIOUS]
