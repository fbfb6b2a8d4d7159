"""Contents, rejected values and files of phases and run configurations."""

from __future__ import annotations

import json
import math
import random
from dataclasses import fields
from typing import Any

import pytest

from bmtools.errors import choices
from bmtools.recipes.phases import (
    Phase,
    PhaseStep,
    RunConfig,
    count_steps,
    learning_rate_at,
    resolved,
)
from bmtools.recipes.settings import (
    PHASE_FIELDS,
    PHASE_KINDS,
    RUN_FIELDS,
    RUN_KINDS,
    BatchConfig,
    LearningRateConfig,
    ObjectiveConfig,
    PhaseLengthConfig,
    PretrainingConfig,
)
from bmtools.recipes.toml import parse_run_config, to_toml

STEPS = Phase("a", PhaseLengthConfig(steps=100), learning_rate=LearningRateConfig(warmup_steps=10))


def test_no_two_settings_share_a_name() -> None:
    names = [one.name for kind in (*PHASE_KINDS.values(), *RUN_KINDS) for one in fields(kind)]
    assert len({*names, "name", "mixture"}) == len(names) + 2
    assert {*names, "mixture"} == {*PHASE_FIELDS, *RUN_FIELDS}


@pytest.mark.parametrize(("given", "steps", "tokens", "epochs", "warmup_steps"), [
    ({"steps": 7}, 7, 0, 1.0, 10),
    ({"tokens": 900}, 0, 900, 1.0, 10),
    ({"epochs": 3.0}, 0, 0, 3.0, 10),
    ({"epochs": 3.0, "steps": 7}, 7, 0, 3.0, 10),
    ({"warmup_ratio": 0.5}, 100, 0, 1.0, 0),
    ({"warmup_ratio": 0.5, "warmup_steps": 3}, 100, 0, 1.0, 3),
])
def test_a_new_value_replaces_old_alternatives(given: dict[str, Any], steps: int, tokens: int,
                                               epochs: float, warmup_steps: int) -> None:
    changed = STEPS.changed(given)
    assert changed.length == PhaseLengthConfig(steps, tokens, epochs)
    assert changed.learning_rate.warmup_steps == warmup_steps
    assert changed.batch == STEPS.batch


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Phase("a.b"), "name: found 'a.b', expected letters, digits, - and _"),
    (lambda: Phase(""), "name: found '', expected letters, digits, - and _"),
    (lambda: Phase("a", mixture={"x": 0.0, "y": 0.0}),
     "mixture: found no weight above 0, expected at least one"),
    (lambda: Phase("a", mixture={"x": -1.0}), "mixture: x: found -1.0, expected 0 or more"),
    (lambda: Phase("a", mixture={"x": math.nan}), "mixture: x: found nan, expected 0 or more"),
    (lambda: STEPS.changed({"mask_rat": 0.2}),
     "found unknown setting 'mask_rat', did you mean 'mask_rate'?"),
    (lambda: RunConfig(()), "found no phases, expected at least one [[phases]]"),
    (lambda: RunConfig((Phase("a"), Phase("b"), Phase("a"))),
     "found two phases named 'a', expected names that differ"),
    (lambda: RunConfig((Phase("a"),), run={"dropout": 1.0}),
     "dropout: found 1.0, expected 0 to below 1"),
    (lambda: PretrainingConfig(replay_steps=-1), "replay_steps: found -1, expected 0 or more"),
])
def test_invalid_values_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == message


def test_resolved_is_plain_and_complete() -> None:
    phase = Phase("a", PhaseLengthConfig(epochs=2), mixture={"x": 1, "y": 3})
    config = RunConfig((phase,), "A title", "a source", ("a note",), "bert-tiny",
                       {"seed": 3, "kl_weight": 1})
    content = resolved(config)
    assert json.loads(json.dumps(content)) == content
    assert {key: value for key, value in content.items() if key != "phases"} == {
        "title": "A title", "source": "a source", "notes": ["a note"],
        "architecture": "bert-tiny", "run": {"kl_weight": 1.0, "seed": 3}}
    assert content["phases"][0]["mixture"] == {"x": 1.0, "y": 3.0}
    assert set(content["phases"][0]) == {"name", *PHASE_FIELDS, "mixture"}


def test_written_files_read_back_equal() -> None:
    rng = random.Random(0)
    configs = [_random_script(rng) for _ in range(300)]
    assert max(len(config.phases) for config in configs) == 3
    for config in configs:
        again = parse_run_config(to_toml(config).encode(), "again")
        assert again == config
        assert hash(again) == hash(config)


def _random_script(rng: random.Random) -> RunConfig:
    """Draw until the settings are valid together."""
    while True:
        try:
            phases = tuple(_random_phase(rng, f"p{number}") for number in range(rng.randint(1, 3)))
            run = rng.choice([{}, {"seed": 3, "dropout": 0.5, "compile": True, "budget": "3h"}])
            return RunConfig(phases, rng.choice(["", 'quoted "\\\n\x7f\x00 ü 😀']), run=run,
                             notes=tuple(rng.choices(["one", "two\tthree"], k=rng.randint(0, 2))))
        except ValueError:
            continue


def _random_phase(rng: random.Random, name: str) -> Phase:
    parts = {part: kind(**{one.name: _random_value(rng, PHASE_FIELDS[one.name], one.default)
                           for one in fields(kind)}) for part, kind in PHASE_KINDS.items()}
    corpora = rng.sample(["a", "b c", 'd."e', "ü"], rng.randint(0, 3))
    mixture = {corpus: rng.choice([0.0, 2.5]) for corpus in corpora}
    return Phase(name, mixture=mixture, **parts)


def _random_value(rng: random.Random, kind: type, default: Any) -> Any:
    others = {int: [0, 3, 8, 12], float: [0.0, 0.25, 1.0], str: [default], bool: [True]}
    return rng.choice([default, default, rng.choice(choices(kind) or others[kind])])


@pytest.mark.parametrize(("schedule", "expected"), [
    (LearningRateConfig(1.0, "linear", 0.2), [.5, 1, 1, .875, .75, .625, .5, .375, .25, .125]),
    (LearningRateConfig(1.0, "constant", 0.2), [.5, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    (LearningRateConfig(1.0, "wsd", 0.0, 0, 0.4),
     [1, 1, 1, 1, 1, 1, 1, 1 - math.sqrt(1 / 4), 1 - math.sqrt(2 / 4), 1 - math.sqrt(3 / 4)]),
    (LearningRateConfig(1.0, "linear", 0.9, warmup_steps=1, min_lr_ratio=0.1),
     [1, 1, .9, .8, .7, .6, .5, .4, .3, .2]),
    (LearningRateConfig(1.0, "cosine", 0.0), [(1 + math.cos(math.pi * n / 10)) / 2
                                              for n in range(10)]),
])
def test_learning_rates(schedule: LearningRateConfig, expected: list[float]) -> None:
    rates = [learning_rate_at(schedule, step, 10) for step in range(10)]
    assert rates == pytest.approx(expected)


def test_a_wsd_schedule_leaves_its_peak_without_a_jump() -> None:
    """Shares of 7 steps that are both rounded up: 4 of warm-up and 4 of decay."""
    schedule = LearningRateConfig(1.0, "wsd", 0.5, 0, 0.5)
    rates = [learning_rate_at(schedule, step, 7) for step in range(7)]
    assert rates[3:5] == [1, 1] and rates[5] == pytest.approx(1 - math.sqrt(1 / 3))


@pytest.mark.parametrize(("length", "steps"), [
    (PhaseLengthConfig(steps=7, tokens=10, epochs=3), 7),
    (PhaseLengthConfig(tokens=6_400, epochs=3), 2),
    (PhaseLengthConfig(epochs=2), 7),
    (PhaseLengthConfig(epochs=0.001), 1),
])
def test_lengths_become_steps(length: PhaseLengthConfig, steps: int) -> None:
    phase = Phase("main", length, BatchConfig(batch_size=32))
    assert count_steps(phase, sequences=100.0, tokens_per_sequence=100.0) == steps


def mask_rate_at(progress: float, objective: ObjectiveConfig) -> float:
    """The masking rate after a share of a phase."""
    phase = Phase("main", objective=objective)
    return PhaseStep(0, phase, round(progress * 10_000_000), 10_000_000).mask_rate


def test_mask_rates_rise_in_the_steps_of_the_paper() -> None:
    objective = ObjectiveConfig(mask_rate=0.05, mask_rate_end=0.25, mask_rate_steps=5)
    for progress, rate in [(0, 0.05), (0.19, 0.05), (0.2, 0.1), (0.39, 0.1), (0.41, 0.15),
                           (0.61, 0.2), (0.79, 0.2), (0.8, 0.25), (1, 0.25)]:
        assert mask_rate_at(progress, objective) == pytest.approx(rate)


@pytest.mark.parametrize(("end", "steps", "rates"), [
    (0.0, 0, [0.15, 0.15, 0.15, 0.15, 0.15]), (0.35, 0, [0.15, 0.2, 0.25, 0.3, 0.35]),
    (0.35, 5, [0.15, 0.2, 0.25, 0.3, 0.35]), (0.35, 2, [0.15, 0.15, 0.35, 0.35, 0.35])])
def test_mask_rates_by_hand(end: float, steps: int, rates: list[float]) -> None:
    objective = ObjectiveConfig(mask_rate=0.15, mask_rate_end=end, mask_rate_steps=steps)
    assert [mask_rate_at(progress, objective)
            for progress in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(rates)


@pytest.mark.parametrize("steps", [0, 5])
def test_a_mask_rate_may_fall_and_meets_its_ends(steps: int) -> None:
    objective = ObjectiveConfig(mask_rate=0.3, mask_rate_end=0.15, mask_rate_steps=steps)
    rates = [mask_rate_at(step / 1000, objective) for step in range(1001)]
    assert rates[0] == mask_rate_at(-0.001, objective) == 0.3
    assert rates[-1] == mask_rate_at(1.0000001, objective) == 0.15
    assert rates == sorted(rates, reverse=True)
