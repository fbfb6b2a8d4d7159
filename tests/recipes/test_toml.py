"""Phases files: what they may hold, what is said of faults, and what the command line changes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.recipes.phases import (
    DISTILLATION_FIELDS,
    PHASE_FIELDS,
    RUN_FIELDS,
    MixtureWeight,
    Phase,
    RunConfig,
    resolved,
)
from bmtools.recipes.settings import (
    BatchConfig,
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
frozen = "embeddings.*"

[phases.mixture]
clinical = 1
"pub med" = { weight = 3, end = 0.5, epochs = 2 }
old = { weight = 1, epochs = inf }
"""
ONE = '[[phases]]\nname = "a"\n'


def test_a_whole_file_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "phases.toml"
    path.write_text(WHOLE)
    batch, schedule = BatchConfig(max_length=64), LearningRateConfig(learning_rate=1.0)
    easy = Phase("easy", PhaseLengthConfig(steps=500), batch, ObjectiveConfig(mask_rate=0.15),
                 schedule,
                 mixture=(MixtureWeight("abstracts", 2.0),))
    # Its own length puts an end to the common one, its own mixture to the common one.
    hard = Phase("hard-2", PhaseLengthConfig(epochs=3.0), BatchConfig(max_length=128),
                 learning_rate=schedule,
                 mixture=(MixtureWeight("clinical", 1.0), MixtureWeight("pub med", 3.0, 0.5, 2.0),
                          MixtureWeight("old", 1.0, None,
                                        math.inf))).changed({"frozen": "embeddings.*"})
    assert read_run_config(str(path)) == RunConfig(
        (easy, hard), "Two phases", "nobody", ("one", "two"), "bert-2x128",
        {"dropout": 0.0, "seed": 3, "compile": True})


def test_numbers_become_what_they_stand_for() -> None:
    config = parse_run_config(f"[run]\nweight_decay = 0\n{ONE}tokens = 5e9\n".encode(), "f")
    assert type(config.run["weight_decay"]) is float
    assert (config.phases[0].length.tokens, type(config.phases[0].length.tokens)) == \
        (5_000_000_000, int)


PHASE_KEYS = f"expected one of {', '.join(PHASE_FIELDS)}, mixture"


@pytest.mark.parametrize(("text", "message"), [
    ("", "found no phases, expected one [[phases]] at least"),
    ("phases = []", "found no phases, expected one [[phases]] at least"),
    ("titel = 'x'\n" + ONE, "found unknown key 'titel', did you mean 'title'?"),
    ("xyz = 1\n" + ONE, "found unknown key 'xyz', "
                        "expected one of title, source, notes, architecture, run, "
                        "distillation, common, phases"),
    ("mask_rate = 0.2\n" + ONE,
     "found unknown key 'mask_rate', which belongs to a phase or to [common]"),
    ("seed = 1\n" + ONE, "found unknown key 'seed', which belongs to [run]"),
    ("title = 3\n" + ONE, "title: found 3, expected text"),
    ("notes = 'x'\n" + ONE, "notes: found 'x', expected a list of texts"),
    ("notes = [1]\n" + ONE, "notes: found a list, expected a list of texts"),
    ("run = 1\n" + ONE, "run: found 1, expected a table"),
    ("common = [1]\n" + ONE, "common: found a list, expected a table"),
    ("[phases]\nname = 'a'", "phases: found a table, expected a list in brackets"),
    ("phases = ['a']", "phase 1: found 'a', expected [[phases]]"),
    ("[run]\ndroput = 0.1\n" + ONE, "[run]: found unknown key 'droput', did you mean 'dropout'?"),
    ("[run]\nmask_rate = 0.1\n" + ONE,
     "[run]: found unknown key 'mask_rate', which belongs to a phase or to [common]"),
    ("[run]\ndropout = 2\n" + ONE, "[run]: dropout: found 2.0, expected 0 to less than 1"),
    ("[run]\ncompile = 1\n" + ONE, "[run]: compile: found 1, expected true or false"),
    ("[run]\nmixed_precision = 'fp8'\n" + ONE,
     "[run]: mixed_precision: found 'fp8', expected auto or no or bf16 or fp16"),
    ("[run]\nmixout = 1\n" + ONE, "[run]: mixout: found 1.0, expected 0 to less than 1"),
    ("[run]\nadversarial_norm = 'l1'\n" + ONE,
     "[run]: adversarial_norm: found 'l1', expected inf or l2"),
    ("[run]\nreplay_steps = -1\n" + ONE, "[run]: replay_steps: found -1, expected 0 or more"),
    ("[common]\nstep = 1\n" + ONE, "[common]: found unknown key 'step', did you mean 'steps'?"),
    ("[common]\nsteps = 1.5\n" + ONE, "[common]: steps: found 1.5, expected a whole number"),
    ("[[phases]]\nsteps = 1", "phase 1: found no name, expected one"),
    ("[[phases]]\nname = 7", "phase 1: name: found 7, expected text"),
    ("[[phases]]\nname = 'a b'", "phase 1: name: found 'a b', expected letters, digits, - and _"),
    (ONE + ONE, "found two phases named 'a', expected names that differ"),
    (ONE + "mask_raet = 0.1", "phase 'a': found unknown key 'mask_raet', "
                              "did you mean 'mask_rate'?"),
    (ONE + "xyz = 1", f"phase 'a': found unknown key 'xyz', {PHASE_KEYS}"),
    (ONE + "seed = 1", "phase 'a': found unknown key 'seed', which belongs to [run]"),
    (ONE + "mask_rate = 'much'", "phase 'a': mask_rate: found 'much', expected a number"),
    (ONE + "mask_rate = true", "phase 'a': mask_rate: found true, expected a number"),
    (ONE + "epochs = inf", "phase 'a': epochs: found inf, expected a number"),
    (ONE + "learning_rate = nan", "phase 'a': learning_rate: found nan, expected a number"),
    (ONE + "steps = {}", "phase 'a': steps: found a table, expected a whole number"),
    (ONE + "steps = 2024-01-01", "phase 'a': steps: found 2024-01-01, expected a whole number"),
    (ONE + "mask_rate = 2", "phase 'a': mask_rate: found 2.0, expected above 0, at most 1"),
    (ONE + "schedule = 'step'",
     "phase 'a': schedule: found 'step', expected linear or cosine or constant or wsd"),
    (ONE + "mask_curve = 'linear'", "phase 'a': mask_rate_end: found 0.0, "
                                    "expected a share above 0 beside mask_curve linear"),
    (ONE + f"batch_size = {2**63}", "phase 'a': batch_size: found 9223372036854775808, "
                                    "expected up to 1,048,576"),
    (ONE + "mask_replace_prob = 0.95",
     "phase 'a': mask_replace_prob and random_replace_prob: found 0.95 and 0.1, "
     "expected shares that add up to 1 at most"),
    (ONE + "mixture = 3", "phase 'a': mixture: found 3, expected a table"),
    (ONE + "mixture = {x = 0, y = 0}",
     "phase 'a': mixture: found no weight above 0, expected one at least"),
    (ONE + "mixture = {x = 'one'}", "phase 'a': mixture: x: found 'one', expected a number"),
    (ONE + "mixture = {x = -1}", "phase 'a': mixture: x: weight: found -1.0, expected 0 or more"),
    (ONE + "mixture = {x = {end = 1}}", "phase 'a': mixture: x: found no weight, expected one"),
    (ONE + "mixture = {x = {weight = 1, ende = 1}}",
     "phase 'a': mixture: x: found unknown key 'ende', did you mean 'end'?"),
    (ONE + "mixture = {x = {weight = 1, epochs = 0}}",
     "phase 'a': mixture: x: epochs: found 0.0, expected above 0"),
    (ONE + "mixture = {x = {weight = inf}}",
     "phase 'a': mixture: x: weight: found inf, expected a number"),
])
def test_a_fault_is_one_line_that_names_file_phase_and_key(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse_run_config(text.encode(), "phases.toml")
    assert re.sub(r"(?<=toml):\d+", "", str(error.value)) == f"phases.toml: {message}"


@pytest.mark.parametrize("content", [b"name =", b"a = 1\na = 2", b"title = '\xff'"])
def test_what_is_not_toml_is_said(content: bytes) -> None:
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
    (("frozen=",), "frozen", ("", "")),
    (("hard.frozen=a=b, c.*",), "frozen", ("", "a=b, c.*")),
    (("frozen=7",), "frozen", ("7", "7")),
    (("steps=5e3",), "steps", (5000, 5000)),
    (("hard.steps=1_000",), "steps", (100, 1000)),
])
def test_one_phase_may_be_changed(sets: Sequence[str], key: str, found: tuple[Any, Any]) -> None:
    changed = override(TWO, {}, sets)
    assert tuple(phase[key] for phase in resolved(changed)["phases"]) == found
    assert changed.run == TWO.run


def test_sets_win_over_values() -> None:
    changed = override(TWO, {"steps": 10, "seed": 2}, ["hard.epochs=1", "seed=3"])
    assert [phase.length for phase in changed.phases] == [
        PhaseLengthConfig(steps=10), PhaseLengthConfig(epochs=1.0)]
    assert changed.run["seed"] == 3


def test_a_mixture_may_be_set() -> None:
    changed = override(TWO, {}, ["hard.mixture={clinical = 1, old = {weight = 2, end = 0}}"])
    assert [phase.mixture for phase in changed.phases] == [
        (), (MixtureWeight("clinical", 1.0), MixtureWeight("old", 2.0, 0.0))]


KEYS = ", ".join([*PHASE_FIELDS, "mixture", *RUN_FIELDS, *DISTILLATION_FIELDS])


@pytest.mark.parametrize(("text", "message"), [
    ("mask_rate", "expected KEY=VALUE or PHASE.KEY=VALUE"),
    ("=3", "expected KEY=VALUE or PHASE.KEY=VALUE"),
    ("easy.=3", "expected KEY=VALUE or PHASE.KEY=VALUE"),
    ("mask_raet=3", "found unknown key 'mask_raet', did you mean 'mask_rate'?"),
    ("xyz=3", f"found unknown key 'xyz', expected one of {KEYS}"),
    ("seeed=3", "found unknown key 'seeed', did you mean 'seed'?"),
    ("hart.steps=3", "found no phase 'hart', expected easy, hard or a number from 1 to 2"),
    ("3.steps=3", "found no phase '3', expected easy, hard or a number from 1 to 2"),
    ("0.steps=3", "found no phase '0', expected easy, hard or a number from 1 to 2"),
    ("hard.seed=3", "seed holds for the whole run; leave the phase out"),
    ("steps=many", "steps: found 'many', expected a whole number"),
    ("steps=", "steps: found '', expected a whole number"),
    ("compile=yes", "compile: found 'yes', expected true or false"),
    ("mixture={x = one}", "mixture: found '{x = one}', expected a table"),
    ("mixture={x = 'one'}", "mixture: x: found 'one', expected a number"),
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


@pytest.mark.parametrize(("content", "message"), [
    ('[run]\noptimizer = "AdamW"\n[[phases]]\nname = "a"\n',
     "x:2: [run]: optimizer: found 'AdamW', expected adamw or muon; "
     "did you mean 'adamw'?"),
    ('[[phases]]\nname = "a"\nmaskrate = 0.1\n',
     "x:3: phase 'a': found unknown key 'maskrate', did you mean 'mask_rate'?")])
def test_a_mistyped_key_or_value_is_answered_with_the_one_meant(content: str,
                                                                message: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_run_config(content.encode(), "x")
    assert str(raised.value) == message


@pytest.mark.parametrize(("text", "place"), [
    ('[common]\nsteps = 4\n\n[[phases]]\nname = "a"\nlearning_rat = 3\n', "f:6: "),
    ('[common]\nsteps = 4\n\n[[phases]]\nname = "a"\nlearning_rate = "x"\n', "f:6: "),
    ('[run]\nseeed = 4\n[[phases]]\nname = "a"\n', "f:2: "),
    ('[[phases]]\nname = "a"\nstepz = 3\n[[phases]]\nname = "b"\nstepz = 3\n', "f: phase 'a': ")])
def test_a_wrong_key_is_named_with_its_line(text: str, place: str) -> None:
    """Where several phases have the key, the phase tells which one it is."""
    with pytest.raises(DataError) as caught:
        parse_run_config(text.encode(), "f")
    assert str(caught.value).startswith(place)
