from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.tasks.settings import ClassificationConfig, FinetuneConfig, FinetunePlan, grid_plans


def plan(grid: str) -> FinetunePlan:
    return FinetunePlan("classification", ClassificationConfig(), Path("a"), Path("b"),
                        FinetuneConfig(grid=grid))


def test_every_combination_once_and_the_rest_as_it_was() -> None:
    found = list(grid_plans(plan("learning-rate=1e-5,3e-5 batch_size=16,32 loss=dice")))
    assert [values for values, _ in found] == [
        {"learning_rate": rate, "batch_size": size, "loss": "dice"}
        for rate in (1e-5, 3e-5) for size in (16, 32)]
    for values, one in found:
        assert one.schedule.learning_rate == values["learning_rate"]
        assert one.finetuning.batch_size == values["batch_size"]
        assert one.config == ClassificationConfig(loss="dice")
        assert one.optimization == plan("").optimization


def test_without_a_grid_there_is_one_plan() -> None:
    [(values, one)] = grid_plans(plan(""))
    assert values == {}
    assert one == plan("")


def test_papers_grids() -> None:
    assert len(list(grid_plans(plan("blurb")))) == 6
    assert {one.finetuning.batch_size for _, one in grid_plans(plan("bioptimus"))} == {4, 8, 16}


@pytest.mark.parametrize(("grid", "told"), [
    ("pubmed", "grid: found 'pubmed', expected blurb or bioptimus, or a setting"),
    ("lerning_rate=1", "3e-5; did you mean 'learning_rate'"), ("batch_size=x", "such as 16"),
    ("seed=1,2", "found 'seed=1,2'"),
    ("max_length=64,128", "found 'max_length=64,128'")])
def test_wrong_grids_are_told(grid: str, told: str) -> None:
    with pytest.raises(BmtoolsError, match=told):
        list(grid_plans(plan(grid)))


def test_values_out_of_range_are_told() -> None:
    with pytest.raises(ValueError, match="batch_size: found 0, expected 1 or more"):
        list(grid_plans(plan("batch_size=0")))
