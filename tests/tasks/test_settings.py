from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import OptimizationConfig
from bmtools.tasks.settings import (
    ClassificationConfig,
    FinetuneConfig,
    FinetunePlan,
    NerConfig,
    grid_plans,
)


@pytest.mark.parametrize(("settings", "message"), [
    ({"scheme": "iob"}, "scheme: found iob, expected bio or bioul or bilou or iobes or io"),
    ({"types": "A,,B"}, "types: found 'A,,B', expected different names"),
    ({"types": "A, A"}, "types: found 'A, A', expected different names"),
    ({"merge_types": " A"}, "merge_types: found ' A', expected a name without spaces"),
    ({"head_layers": 0}, "head_layers: found 0"), ({"head_size": 33}, "an even number"),
    ({"head_dropout": 1.0}, "head_dropout: found 1.0, expected 0 to below 1"),
    ({"crf": True, "loss": "dice"}, "loss: found dice, expected cross-entropy, because crf"),
    ({"crf": True, "class_weights": "balanced"}, "class_weights: found balanced, expected none"),
    ({"crf": True, "label_pieces": "all"}, "label_pieces: found all, expected first, because crf"),
    ], ids=str)
def test_wrong_settings_of_tagging_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NerConfig(**settings)


@pytest.mark.parametrize(("settings", "message"), [
    ({"seed_list": "1,x"}, "seed_list: found '1,x', expected different whole numbers up to 42949"),
    ({"seed_list": "4294967296"}, "seed_list: found '4294967296', expected"),
    ({"seed_list": "9" * 5000}, f"seed_list: found '{'9' * 60}', expected"),
    ({"seed_list": "3,3"}, "seed_list: found '3,3', expected different whole")], ids=range(4))
def test_wrong_seeds_are_a_short_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as found:
        FinetuneConfig(**settings)
    assert len(str(found.value)) < 160


def test_seeds_must_not_exceed_the_limit_of_libraries() -> None:
    last = OptimizationConfig(seed=2**32 - 3)
    paths = ("ner", NerConfig(), Path("model"), Path("out"))
    FinetunePlan(*paths, FinetuneConfig(seeds=3), last)
    FinetunePlan(*paths, FinetuneConfig(seeds=5, seed_list="7"), last)
    with pytest.raises(ValueError, match="seed: found 4294967293, expected 4294967292 at most"):
        FinetunePlan(*paths, FinetuneConfig(seeds=4), last)


def plan(grid: str) -> FinetunePlan:
    return FinetunePlan("classification", ClassificationConfig(), Path("a"), Path("b"),
                        FinetuneConfig(grid=grid))


def test_grid_yields_every_combination_once() -> None:
    found = list(grid_plans(plan("learning-rate=1e-5,3e-5 batch_size=16,32 loss=dice")))
    assert [values for values, _ in found] == [
        {"learning_rate": rate, "batch_size": size, "loss": "dice"}
        for rate in (1e-5, 3e-5) for size in (16, 32)]
    for values, one in found:
        assert one.schedule.learning_rate == values["learning_rate"]
        assert one.finetuning.batch_size == values["batch_size"]
        assert one.config == ClassificationConfig(loss="dice")
        assert one.optimization == plan("").optimization


def test_named_grids_equal_their_papers() -> None:
    blurb = [one.finetuning.epochs for _, one in grid_plans(plan("blurb"))]
    assert len(blurb) == 30 and (min(blurb), max(blurb)) == (2, 60)
    assert [one.finetuning.epochs for _, one in grid_plans(plan("blurb epochs=7"))] == [7] * 6
    assert {one.finetuning.batch_size for _, one in grid_plans(plan("bioptimus"))} == {4, 8, 16}


@pytest.mark.parametrize(("words", "epochs"), [
    ("schedule=linear", [2, 4]), ("schedule=constant", [2, 4]), ("schedule=wsd", [2, 4]),
    ("schedule=constant warmup_ratio=0", [4]), ("schedule=constant warmup_steps=9", [4]),
    ("schedule=constant,cosine warmup_ratio=0", [4, 2, 4])])
def test_run_that_contains_shorter_runs_is_trained_once(words: str, epochs: list[int]) -> None:
    found = grid_plans(plan(f"{words} epochs=2,4"))
    assert [one.finetuning.epochs for _, one in found] == epochs


@pytest.mark.parametrize(("grid", "told"), [
    ("pubmed", "grid: found 'pubmed', expected blurb or bioptimus, or a setting"),
    ("lerning_rate=1", "3e-5; did you mean 'learning_rate'"), ("batch_size=x", "such as 16"),
    ("seed=1,2", "found 'seed=1,2'"), ("head_size=32,33", "grid: head_size: found 33, expected an"),
    ("batch_size=16,0", "grid: batch_size: found 0, expected 1 or more"),
    ("max_length=64,128", "found 'max_length=64,128'")])
def test_wrong_grids_are_errors(grid: str, told: str) -> None:
    with pytest.raises(BmtoolsError, match=told):
        list(grid_plans(plan(grid)))
