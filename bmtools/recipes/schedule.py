"""Schedule of a run: phase, learning rate, batch size and masking rate of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import (
    BatchConfig,
    LearningRateConfig,
    ObjectiveConfig,
    PhaseLengthConfig,
)


@dataclass(frozen=True)
class PhaseStep:
    """A step of a run, within its phase.

    Args:
        phase_number: from 0.
        phase: its settings.
        step: number within the phase, from 0.
        steps: steps of the phase.
    """

    phase_number: int
    phase: Phase
    step: int
    steps: int

    @property
    def progress(self) -> float:
        """Share of the phase before this step."""
        return self.step / self.steps

    @property
    def learning_rate(self) -> float:
        """Learning rate of this update."""
        return learning_rate(self.step, self.steps, self.phase.learning_rate)

    @property
    def batch_size(self) -> int:
        """Sequences of this batch, over all processes."""
        return batch_size_at(self.step, self.steps, self.phase.batch)

    @property
    def mask_rate(self) -> float:
        """Share of tokens to mask."""
        return mask_rate_at(self.progress, self.phase.objective)

    @property
    def is_last(self) -> bool:
        """Whether this is the last step of its phase."""
        return self.step == self.steps - 1


class Schedule:
    """Phases one after the other.

    Args:
        phases: in order.
        steps: of each phase.
    """

    def __init__(self, phases: Sequence[Phase], steps: Sequence[int]) -> None:
        self.phases = tuple(phases)
        self.steps_per_phase = tuple(steps)
        self.steps = sum(steps)

    def phase_step(self, number: int) -> PhaseStep:
        """Find step `number`, from 0; numbers beyond the end give the last step."""
        left = min(number, self.steps - 1)
        lengths = zip(self.phases, self.steps_per_phase, strict=True)
        for phase_number, (phase, steps) in enumerate(lengths):
            if left < steps:
                return PhaseStep(phase_number, phase, left, steps)
            left -= steps
        raise AssertionError("a schedule without steps")

    def __iter__(self) -> Iterator[Phase]:
        return iter(self.phases)


@dataclass(frozen=True)
class EpochSize:
    """Sequences of an epoch, and the average tokens of a full sequence."""

    sequences: float
    tokens_per_sequence: float


def make_schedule(phases: Sequence[Phase], measure: Callable[[Phase], EpochSize]) -> Schedule:
    """Turn lengths in tokens and epochs into steps.

    Args:
        phases: in order.
        measure: counts the sequences of a phase's epoch.
    """
    return Schedule(phases, [_count_steps(phase.length, phase.batch, measure(phase))
                             for phase in phases])


def _count_steps(length: PhaseLengthConfig, batch: BatchConfig, epoch: EpochSize) -> int:
    if length.steps:
        return length.steps
    sequences = (length.tokens / epoch.tokens_per_sequence if length.tokens
                 else length.epochs * epoch.sequences)
    return max(1, math.ceil(sequences / _mean_batch_size(batch) - 1e-6))


def _mean_batch_size(batch: BatchConfig) -> float:
    start = batch.initial_batch_size or batch.batch_size
    return batch.batch_size - batch.ramp_ratio * (batch.batch_size - start) / 2


def learning_rate(step: int, steps: int, schedule: LearningRateConfig) -> float:
    """Compute the learning rate of update `step`, from 0."""
    warmup = schedule.warmup_steps or round(schedule.warmup_ratio * steps)
    if step < warmup:
        return schedule.learning_rate * (step + 1) / warmup
    share = _decay(step, steps, warmup, schedule)
    final = schedule.min_lr_ratio
    return schedule.learning_rate * (final + (1 - final) * share)


def _decay(step: int, steps: int, warmup: int, schedule: LearningRateConfig) -> float:
    """Fall from 1 after the warm-up to 0 after the last step."""
    if schedule.schedule == "constant":
        return 1.0
    if schedule.schedule == "wsd":
        falling = max(round(schedule.decay_ratio * steps), 1)
        return 1 - math.sqrt(max(step - (steps - falling), 0) / falling)
    left = (steps - step) / max(steps - warmup, 1)
    return left if schedule.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2


def batch_size_at(step: int, steps: int, batch: BatchConfig) -> int:
    """Compute the size of a batch: a linear ramp to the full size, in steps of the initial size."""
    ramp = round(batch.ramp_ratio * steps) if batch.initial_batch_size else 0
    if step >= ramp:
        return batch.batch_size
    start = batch.initial_batch_size
    grown = start + (batch.batch_size - start) * step / ramp
    return max(start, int(grown) // start * start)


def mask_rate_at(progress: float, objective: ObjectiveConfig) -> float:
    """Compute the masking rate after a share of the phase, 0 to 1.

    Source: steps from 5 % to 25 % in five stairs are in Gu et al. 2021 (BLURB), section 2.3.
    """
    start, end = objective.mask_rate, objective.mask_rate_end
    if objective.mask_curve == "fixed" or progress <= 0:
        return start
    if progress >= 1:
        return end  # met exactly
    if objective.mask_curve == "steps":
        steps = objective.mask_rate_steps
        progress = min(math.floor(progress * steps), steps - 1) / (steps - 1)
    elif objective.mask_curve == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    return end if progress == 1 else start + (end - start) * progress
