from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.installation import install_command
from bmtools.recipes.settings import OptimizationConfig
from bmtools.tasks.grid import Trials, grid_plans
from bmtools.tasks.run_settings import FinetuneConfig, FinetunePlan
from bmtools.tasks.settings import ClassificationConfig


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
    ("max_length=64,128", "found 'max_length=64,128'"),
    ("learning_rate=1e-5..1e-4", "found a range of learning_rate, expected values separated by "
                                 "commas, or trials")])
def test_wrong_grids_are_told(grid: str, told: str) -> None:
    with pytest.raises(BmtoolsError, match=told):
        list(grid_plans(plan(grid)))


def test_values_out_of_range_are_told() -> None:
    with pytest.raises(ValueError, match="batch_size: found 0, expected 1 or more"):
        list(grid_plans(plan("batch_size=0")))


RANGES = "learning_rate=1e-6..1e-3 batch_size=4..64 loss=cross-entropy,dice warmup_ratio=0..0.2"


def trials(grid: str, count: int = 20, seed: int = 0) -> Trials:
    return Trials(FinetunePlan("classification", ClassificationConfig(), Path("a"), Path("b"),
                               FinetuneConfig(grid=grid, trials=count),
                               OptimizationConfig(seed=seed)))


def search(grid: str, count: int = 20, seed: int = 0) -> list[dict[str, Any]]:
    """Search for a learning rate of 1e-4 with the dice loss."""
    found = []
    proposals = trials(grid, count, seed)
    for values, plan in proposals:
        assert plan.schedule.learning_rate == values["learning_rate"]
        assert plan.config.loss == values.get("loss", "cross-entropy")  # type: ignore[attr-defined]
        distance = abs(math.log10(values["learning_rate"] / 1e-4))
        proposals.tell(1 - distance / 4 - 0.3 * (values.get("loss") != "dice"))
        found.append(values)
    return found


def test_values_are_within_ranges_and_the_same_for_a_seed() -> None:
    found = search(RANGES)
    assert len(found) == 20
    for values in found:
        assert 1e-6 <= values["learning_rate"] <= 1e-3
        assert values["batch_size"] in range(4, 65) and 0 <= values["warmup_ratio"] <= 0.2
        assert float(f"{values['learning_rate']:.3g}") == values["learning_rate"]
    low = sum(values["learning_rate"] < 3e-5 for values in found)
    assert 3 <= low <= 15, "a range of three powers of ten is drawn from by its logarithm"
    assert search(RANGES) == found
    assert search(RANGES, seed=1) != found


def test_later_proposals_are_nearer_to_the_best() -> None:
    found = search("learning_rate=1e-7..1e-1 loss=cross-entropy,dice", count=40)
    near = [1e-5 < values["learning_rate"] < 1e-3 and values["loss"] == "dice" for values in found]
    assert sum(near[20:]) > 2 * sum(near[:10])


def test_a_combination_is_tried_once() -> None:
    found = search("learning_rate=1e-4,1e-5 loss=cross-entropy,dice")
    assert len({tuple(values.values()) for values in found}) == len(found) <= 4


@pytest.mark.parametrize(("grid", "told"), [
    ("learning_rate=1e-3..1e-5", "found 'learning_rate=1e-3..1e-5', expected values of"),
    ("loss=a..b", "loss: found a..b, expected cross-entropy or dice"),
    ("batch_size=0..8", "batch_size: found 0, expected 1 or more"),
    ("batch_size=1.5..8", "expected values of batch_size such as 16"),
    ("trials=1,2", "found 'trials=1,2'"), ("folds=3,5", "found 'folds=3,5'")])
def test_wrong_ranges_are_told(grid: str, told: str) -> None:
    with pytest.raises((BmtoolsError, ValueError), match=told):
        trials(grid)


def test_trials_need_a_grid_and_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="trials: found 3, expected 0 without grid"):
        trials("", 3)
    monkeypatch.setattr("bmtools.installation.util.find_spec", lambda name: None)
    with pytest.raises(BmtoolsError) as caught:
        trials("batch_size=1,2")
    assert str(caught.value) == \
        f"trials needs the package optuna: {install_command('optuna')}"
