"""Steps fall into phases; rates, batches and lengths follow their curves."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from bmtools.recipes.masking import MaskRateCurve
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import PhaseStep, Schedule, count_steps
from bmtools.recipes.settings import (
    BatchConfig,
    LearningRateConfig,
    ObjectiveConfig,
    PhaseLengthConfig,
)

FIRST = Phase("first", PhaseLengthConfig(steps=4),
              learning_rate=LearningRateConfig(1.0, "constant"))
SECOND = Phase("second", PhaseLengthConfig(steps=5), objective=ObjectiveConfig(
    mask_rate=0.05, mask_rate_end=0.25, mask_curve="steps"))


def test_each_step_has_its_phase() -> None:
    schedule = Schedule([FIRST, SECOND], [4, 5])
    phase_steps = [schedule.phase_step(number) for number in range(9)]
    assert [phase_step.phase.name for phase_step in phase_steps] == ["first"] * 4 + ["second"] * 5
    assert [phase_step.step for phase_step in phase_steps] == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert [number for number in range(9) if phase_steps[number].is_last] == [3, 8]
    assert schedule.phase_step(20) == phase_steps[-1]


def test_blurbs_masking_rises_by_5_percent_every_fifth() -> None:
    schedule = Schedule([FIRST, SECOND], [4, 5])
    rates = [schedule.phase_step(number).mask_rate for number in range(4, 9)]
    assert rates == pytest.approx([0.05, 0.10, 0.15, 0.20, 0.25])


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
    rates = [schedule.at(step, 10) for step in range(10)]
    assert rates == pytest.approx(expected)


def test_batches_grow_in_steps_of_the_first() -> None:
    ramp = Phase("main", batch=BatchConfig(batch_size=32, initial_batch_size=8, ramp_ratio=0.5))
    sizes = [PhaseStep(0, ramp, step, 10).batch_size for step in range(7)]
    assert sizes == [8, 8, 16, 16, 24, 32, 32]
    assert PhaseStep(0, Phase("main", batch=BatchConfig(batch_size=32)), 0, 10).batch_size == 32


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
    objective = ObjectiveConfig(mask_rate=0.05, mask_rate_end=0.25, mask_curve="steps")
    for progress, rate in [(0, 0.05), (0.19, 0.05), (0.2, 0.1), (0.39, 0.1), (0.41, 0.15),
                           (0.61, 0.2), (0.79, 0.2), (0.8, 0.25), (1, 0.25)]:
        assert mask_rate_at(progress, objective) == pytest.approx(rate)


@pytest.mark.parametrize(("curve", "rates"), [
    ("fixed", [0.15, 0.15, 0.15, 0.15, 0.15]),
    ("linear", [0.15, 0.2, 0.25, 0.3, 0.35]),
    ("cosine", [0.15, 0.1792893, 0.25, 0.3207107, 0.35]),
    ("steps", [0.15, 0.2, 0.25, 0.3, 0.35])])
def test_mask_rates_by_hand(curve: MaskRateCurve, rates: list[float]) -> None:
    objective = ObjectiveConfig(mask_rate=0.15, mask_rate_end=0 if curve == "fixed" else 0.35,
                                mask_curve=curve)
    assert [mask_rate_at(progress, objective)
            for progress in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(rates)


@pytest.mark.parametrize("curve", get_args(MaskRateCurve)[1:])
def test_a_mask_rate_may_fall_and_meets_its_ends(curve: MaskRateCurve) -> None:
    objective = ObjectiveConfig(mask_rate=0.3, mask_rate_end=0.15, mask_curve=curve)
    rates = [mask_rate_at(step / 1000, objective) for step in range(1001)]
    assert rates[0] == 0.3 and rates[-1] == 0.15
    assert rates == sorted(rates, reverse=True)
    assert mask_rate_at(-0.001, objective) == 0.3
    assert mask_rate_at(1.0000001, objective) == 0.15


def test_a_phase_that_ends_in_its_warmup_is_told() -> None:
    """The warm-up stays as it was set, as in transformers; `at` then ends below the peak."""
    late = LearningRateConfig(1e-3, warmup_steps=10)
    phases = [Phase("main", learning_rate=late), Phase("first", learning_rate=late),
              Phase("ratio", learning_rate=LearningRateConfig(1e-3, warmup_ratio=1.0))]
    [warning] = Schedule(phases, [4, 10, 4]).unfinished_warmups()
    assert warning == (
        "phase 'main': warmup_steps is 10, but the phase ends after 4: the learning rate rises to "
        "0.0004 and NEVER REACHES its peak of 0.001; set fewer, or warmup_ratio")
    assert late.at(3, 4) == pytest.approx(4e-4)
    assert late.at(9, 10) == 1e-3, "a warm-up as long as its phase ends at the peak"
