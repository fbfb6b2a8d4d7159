"""Steps fall into phases; rates, batches and lengths follow their curves."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from bmtools.masking.settings import MaskRateCurve
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import (
    EpochSize,
    Schedule,
    batch_size_at,
    learning_rate,
    make_schedule,
    mask_rate_at,
)
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
    timeline = Schedule([FIRST, SECOND], [4, 5])
    stages = [timeline.phase_step(number) for number in range(9)]
    assert [stage.phase.name for stage in stages] == ["first"] * 4 + ["second"] * 5
    assert [stage.step for stage in stages] == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert [stage.is_last for stage in stages] == [False] * 3 + [True] + [False] * 4 + [True]
    assert timeline.phase_step(20) == stages[-1]


def test_blurbs_masking_rises_by_5_percent_every_fifth() -> None:
    timeline = Schedule([FIRST, SECOND], [4, 5])
    rates = [timeline.phase_step(number).mask_rate for number in range(4, 9)]
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
    assert [learning_rate(step, 10, schedule) for step in range(10)] == pytest.approx(expected)


def test_batches_grow_in_steps_of_the_first() -> None:
    rows = BatchConfig(batch_size=32, initial_batch_size=8, ramp_ratio=0.5)
    assert [batch_size_at(step, 10, rows) for step in range(7)] == [8, 8, 16, 16, 24, 32, 32]
    assert batch_size_at(0, 10, BatchConfig(batch_size=32)) == 32


@pytest.mark.parametrize(("length", "steps"), [
    (PhaseLengthConfig(steps=7, tokens=10, epochs=3), 7),
    (PhaseLengthConfig(tokens=6_400, epochs=3), 2),
    (PhaseLengthConfig(epochs=2), 7),
    (PhaseLengthConfig(epochs=0.001), 1),
])
def test_lengths_become_steps(length: PhaseLengthConfig, steps: int) -> None:
    phase = Phase("main", length, BatchConfig(batch_size=32))
    assert make_schedule([phase], lambda _phase: EpochSize(100.0, 100.0)).steps == steps


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
