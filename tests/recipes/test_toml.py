"""Phases files: allowed contents, error messages, and changes from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.recipes.phases import Phase, RunConfig, resolved
from bmtools.recipes.settings import (
    PHASE_FIELDS,
    RUN_FIELDS,
    BatchConfig,
    FreezeConfig,
    LearningRateConfig,
    ObjectiveConfig,
    PhaseLengthConfig,
)
from bmtools.recipes.toml import (
    load_recipe,
    override,
    parse_run_config,
    read_run_config,
    recipe_names,
)

WHOLE = """
title = "Two phases"
source = "nobody"
notes = ["one", "two"]
architecture = "bert-2x128"

[run]
dropout = 0
seed = 3
compile = true

[common]
steps = 500
max_length = 64
learning_rate = 1

[common.mixture]
abstracts = 2

[[phases]]
name = "easy"
mask_rate = 0.15

[[phases]]
name = "hard-2"
epochs = 3
max_length = 128
frozen_layers = 1

[phases.mixture]
clinical = 1
"pub med" = 3.5
"""
ONE = '[[phases]]\nname = "a"\n'


def test_a_complete_file_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "phases.toml"
    path.write_text(WHOLE)
    batch, schedule = BatchConfig(max_length=64), LearningRateConfig(learning_rate=1.0)
    easy = Phase("easy", PhaseLengthConfig(steps=500), batch, ObjectiveConfig(mask_rate=0.15),
                 schedule,
                 mixture={"abstracts": 2.0})
    # Its own length puts an end to the common one, its own mixture to the common one.
    hard = Phase("hard-2", PhaseLengthConfig(epochs=3.0), BatchConfig(max_length=128),
                 learning_rate=schedule,
                 freeze=FreezeConfig(1), mixture={"clinical": 1.0, "pub med": 3.5})
    assert read_run_config(str(path)) == RunConfig(
        (easy, hard), "Two phases", "nobody", ("one", "two"), "bert-2x128",
        {"dropout": 0.0, "seed": 3, "compile": True})


def test_numbers_are_converted_to_the_type_of_the_setting() -> None:
    config = parse_run_config(f"[run]\nweight_decay = 0\n{ONE}tokens = 5e9\n".encode(), "f")
    assert type(config.run["weight_decay"]) is float
    assert (config.phases[0].length.tokens, type(config.phases[0].length.tokens)) == \
        (5_000_000_000, int)


@pytest.mark.parametrize(("text", "message"), [
    ("", "found no phases, expected at least one [[phases]]"),
    ("titel = 'x'\n" + ONE, "found unknown key 'titel', did you mean 'title'?"),
    ("mask_rate = 0.2\n" + ONE,
     "found unknown key 'mask_rate', which belongs to a phase or to [common]"),
    ("seed = 1\n" + ONE, "found unknown key 'seed', which belongs to [run]"),
    ("title = 3\n" + ONE, "title: found 3, expected text"),
    ("notes = 'x'\n" + ONE, "notes: found 'x', expected a list of texts"),
    ("notes = [1]\n" + ONE, "notes: found a list, expected a list of texts"),
    ("run = 1\n" + ONE, "run: found 1, expected a table"),
    ("[phases]\nname = 'a'", "phases: found a table, expected a list in brackets"),
    ("phases = ['a']", "phase 1: found 'a', expected [[phases]]"),
    ("[run]\nmask_rate = 0.1\n" + ONE,
     "[run]: found unknown key 'mask_rate', which belongs to a phase or to [common]"),
    ("[run]\ndropout = 2\n" + ONE, "dropout: found 2.0, expected 0 to below 1"),
    ("[run]\ncompile = 1\n" + ONE, "[run]: compile: found 1, expected true or false"),
    ("[run]\nprecision = 'fp8'\n" + ONE,
     "[run]: precision: found 'fp8', expected auto or no or bf16 or fp16"),
    ("[run]\nreplay_steps = -1\n" + ONE, "replay_steps: found -1, expected 0 or more"),
    ("[common]\nstep = 1\n" + ONE, "[common]: found unknown key 'step', did you mean 'steps'?"),
    ("[common]\nsteps = 1.5\n" + ONE, "[common]: steps: found 1.5, expected a whole number"),
    ("[[phases]]\nsteps = 1", "phase 1: found no name, expected the key 'name'"),
    ("[[phases]]\nname = 'a b'", "phase 1: name: found 'a b', expected letters, digits, - and _"),
    (ONE + ONE, "found two phases named 'a', expected names that differ"),
    (ONE + "mask_raet = 0.1", "phase 'a': found unknown key 'mask_raet', "
                              "did you mean 'mask_rate'?"),
    (ONE + "seed = 1", "phase 'a': found unknown key 'seed', which belongs to [run]"),
    (ONE + "mask_rate = true", "phase 'a': mask_rate: found true, expected a number"),
    (ONE + "epochs = inf", "phase 'a': epochs: found inf, expected a number"),
    (ONE + "steps = 2024-01-01", "phase 'a': steps: found 2024-01-01, expected a whole number"),
    (ONE + "mask_rate = 2", "phase 'a': mask_rate: found 2.0, expected above 0, at most 1"),
    (ONE + "schedule = 'step'",
     "phase 'a': schedule: found 'step', expected linear or cosine or constant or wsd"),
    (ONE + "mask_replace_prob = 0.95",
     "phase 'a': mask_replace_prob and random_replace_prob: found 0.95 and 0.1, "
     "expected shares that add up to 1 at most"),
    (ONE + "mixture = 3", "phase 'a': mixture: found 3, expected a table of numbers"),
    (ONE + "mixture = {x = {weight = 1}}",
     "phase 'a': mixture: found a table, expected a table of numbers"),
    (ONE + "mixture = {x = inf}", "phase 'a': mixture: x: found inf, expected 0 or more"),
    ("[run]\noptimizer = 'AdamW'\n" + ONE,
     "[run]: optimizer: found 'AdamW', expected adamw or muon; did you mean 'adamw'?"),
])
def test_errors_are_one_line_with_file_phase_and_key(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse_run_config(text.encode(), "phases.toml")
    assert str(error.value) == f"phases.toml: {message}"


@pytest.mark.parametrize("content", [b"name =", b"a = 1\na = 2", b"title = '\xff'"])
def test_invalid_toml_is_an_error(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^phases\.toml: not TOML \(.+\)$"):
        parse_run_config(content, "phases.toml")


TWO = RunConfig((Phase("easy", PhaseLengthConfig(steps=100)),
                 Phase("hard", PhaseLengthConfig(tokens=900))),
                title="Two", architecture="bert-tiny", run={"seed": 1, "dropout": 0.1})


def test_values_change_all_phases_and_the_run() -> None:
    changed = override(TWO, {"epochs": 2.0, "mask_rate": 0.3, "seed": 7, "mixout": 0.9})
    assert [phase.length for phase in changed.phases] == [PhaseLengthConfig(epochs=2.0)] * 2
    assert [phase.objective.mask_rate for phase in changed.phases] == [0.3, 0.3]
    assert changed.run == {"seed": 7, "dropout": 0.1, "mixout": 0.9}
    assert (changed.title, changed.architecture) == ("Two", "bert-tiny")
    assert TWO.run == {"seed": 1, "dropout": 0.1}


@pytest.mark.parametrize(("sets", "key", "found"), [
    (("mask_rate=0.2",), "mask_rate", (0.2, 0.2)),
    (("hard.mask_rate=0.2",), "mask_rate", (0.15, 0.2)),
    (("2.mask_rate = 0.2",), "mask_rate", (0.15, 0.2)),
    (("mask_rate=0.2", "easy.mask_rate=0.3", "easy.mask_rate=0.4"), "mask_rate", (0.4, 0.2)),
    (("easy.mask_rate=0.3", "mask_rate=0.2"), "mask_rate", (0.2, 0.2)),
    (("schedule=wsd",), "schedule", ("wsd", "wsd")),
    (('1.schedule="wsd"',), "schedule", ("wsd", "linear")),
    (("steps=5e3",), "steps", (5000, 5000)),
    (("hard.steps=1_000",), "steps", (100, 1000)),
    (("hard.mixture={a = 1, b = 2.5}",), "mixture", (None, {"a": 1.0, "b": 2.5})),
])
def test_one_phase_may_be_changed(sets: Sequence[str], key: str, found: tuple[Any, Any]) -> None:
    changed = override(TWO, {}, sets)
    assert tuple(phase.get(key) for phase in resolved(changed)["phases"]) == found
    assert changed.run == TWO.run


def test_assignments_override_values() -> None:
    changed = override(TWO, {"steps": 10, "seed": 2}, ["hard.epochs=1", "seed=3"])
    assert [phase.length for phase in changed.phases] == [
        PhaseLengthConfig(steps=10), PhaseLengthConfig(epochs=1.0)]
    assert changed.run["seed"] == 3


KEYS = ", ".join([*PHASE_FIELDS, *RUN_FIELDS])


@pytest.mark.parametrize(("text", "message"), [
    ("mask_rate", "expected KEY=VALUE or PHASE.KEY=VALUE"),
    ("easy.=3", "expected KEY=VALUE or PHASE.KEY=VALUE"),
    ("mask_raet=3", "found unknown key 'mask_raet', did you mean 'mask_rate'?"),
    ("xyz=3", f"found unknown key 'xyz', expected one of {KEYS}"),
    ("hart.steps=3", "found no phase 'hart', expected easy, hard or a number from 1 to 2"),
    ("0.steps=3", "found no phase '0', expected easy, hard or a number from 1 to 2"),
    ("hard.seed=3", "seed holds for the whole run; leave the phase out"),
    ("steps=many", "steps: found 'many', expected a whole number"),
    ("compile=yes", "compile: found 'yes', expected true or false"),
    ("mixture={x = one}", "mixture: found '{x = one}', expected a table of numbers"),
])
def test_a_wrong_set_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        override(TWO, {}, [text])
    assert str(error.value) == f"set {text}: {message}"


def test_an_unknown_recipe_is_one_line_with_all_names() -> None:
    names = ", ".join(recipe_names())
    with pytest.raises(ValueError) as error:
        load_recipe("pubmetbert")
    assert str(error.value) == ("found no recipe named 'pubmetbert', did you mean 'pubmedbert'? "
                                f"Recipes: {names}")
    with pytest.raises(ValueError) as error:
        load_recipe("../x")
    assert str(error.value) == f"found no recipe named '../x', expected one of {names}"
