from __future__ import annotations

import random
from typing import Any

import pytest

from bmtools.tasks.metrics.span_errors import (
    BOTH,
    BOUNDARY,
    CORRECT,
    MISSED,
    NONE,
    SPURIOUS,
    TYPE,
    count_confusions,
    count_errors,
    pair_mentions,
)
from bmtools.tasks.metrics.spans import Mention, score_spans


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
def test_kinds_of_error(found: list[tuple[int, int, str]], kinds: list[Any]) -> None:
    pairs = pair_mentions([("a", 0, 4, "X")], [("a", *one) for one in found])
    assert [(pair.kind, pair.gold and pair.gold[2], pair.predicted and pair.predicted[2])
            for pair in pairs] == kinds
    assert {pair.text for pair in pairs} == {"a"}
    assert [pair.predicted for pair in pairs if pair.predicted] == sorted(
        found, key=[pair.predicted for pair in pairs].index)
    elsewhere = pair_mentions([("a", 0, 4, "X")], [("b", *one) for one in found])
    assert {pair.kind for pair in elsewhere} <= {MISSED, SPURIOUS}


def test_errors_add_up() -> None:
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


def test_nothing_has_no_errors() -> None:
    assert pair_mentions([], []) == []
    assert set(count_errors([]).values()) == {0}
