"""Metrics of a run: means, speed, time left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bmtools.models.hardware import Hardware
from bmtools.recipes.phases import Phase, Schedule
from bmtools.training.metrics import Figures, Progress, Reporter, Speed, StepResult

SPEED = Speed(Hardware("cpu", "x", 2, 1 << 30, False), "no", 1, [1e6, 1e6])


def step(number: int, loss: float = 1.0, **counts: int) -> StepResult:
    figures = Figures({"loss": loss, "mlm_accuracy": loss / 10}, 2 * loss)
    return StepResult(number, lambda: figures, 1e-3 * number,
                      {"sequences": 4, "tokens": 50, **counts})


def reports(progress: Progress, schedule: Schedule, steps: Sequence[StepResult],
            every: int) -> list[dict[str, Any]]:
    reporter = Reporter(progress, every, schedule.steps, SPEED)
    lines = []
    for one in steps:
        progress.wall_seconds += 0.5
        line = reporter.account(one, schedule.phase_step(one.number - 1))
        if line:
            lines.append(line)
    reporter.settle()  # as before a state is saved
    return lines


def two_phases(make: Callable[..., Phase]) -> Schedule:
    return Schedule([make(name="a"), make(name="b")], [5, 4])


def test_a_skipped_update_is_reported_once() -> None:
    progress = Progress({})
    reporter = Reporter(progress, 50, 9, SPEED)
    reporter.account(StepResult(7, lambda: Figures({"loss": 9.0}, 3.0, skipped=True), 1e-3,
                                {"tokens": 50}), Schedule([Phase("a")], [9]).phase_step(6))
    reporter.settle()
    line, note = reporter.skipped()
    assert progress.metrics == [line] == [{"step": 7,
                                           "skipped": {"loss": 9.0, "gradient_norm": 3.0}}]
    assert note == {"note": "skipped the update of step 7: its loss 9 or its gradient norm 3 is "
                            "far above the steps before it"}
    assert not reporter.skipped()


def test_means_are_of_the_steps_since_the_last_line(toy_phase: Callable[..., Phase]) -> None:
    """Every three steps, and at the end of a phase."""
    schedule = two_phases(toy_phase)
    steps = [step(number, float(number), maskable=40, masked=number, words=20, words_masked=3)
             for number in range(1, 10)]
    lines = reports(Progress({}), schedule, steps, 3)
    assert [(line["step"], line["phase"], line["loss"]) for line in lines] == [
        (3, "a", 2.0), (5, "a", 4.5), (6, "b", 6.0), (9, "b", 8.0)]
    assert [line["gradient_norm"] for line in lines] == [4.0, 9.0, 12.0, 16.0]
    assert [line["mask_rate"] for line in lines] == [0.05, 0.1125, 0.15, 0.2]
    assert {line["words_masked"] for line in lines} == {0.15}
    assert [line["tokens_seen"] for line in lines] == [150, 250, 300, 450]
    assert {line["tokens_per_second"] for line in lines} == {100}
    assert [line["seconds_left"] for line in lines] == [3.0, 2.0, 1.5, 0.0]


def test_sums_survive_a_session_that_ends_between_lines(
        toy_phase: Callable[..., Phase]) -> None:
    schedule = two_phases(toy_phase)
    steps = [step(number, math.sqrt(number)) for number in range(1, 10)]
    whole, parted = Progress({}), Progress({})
    reports(whole, schedule, steps, 4)
    reports(parted, schedule, steps[:2], 4)
    reports(parted, schedule, steps[2:], 4)
    clocks = ("tokens_per_second", "seconds_left")
    assert [{k: v for k, v in line.items() if k not in clocks} for line in whole.metrics] == \
        [{k: v for k, v in line.items() if k not in clocks} for line in parted.metrics]


def test_replayed_losses_have_a_separate_mean(toy_phase: Callable[..., Phase]) -> None:
    schedule = two_phases(toy_phase)
    steps = [replace(step(number), replayed=None if number % 2 else step(number, 10.0 * number))
             for number in range(1, 6)]
    lines = reports(Progress({}), schedule, steps, 4)
    assert [line.get("replay_loss") for line in lines] == [30.0, None]
    assert lines[0]["loss"] == 1.0
