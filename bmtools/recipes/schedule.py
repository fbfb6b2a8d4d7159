"""Schedule of a run: phase, batch size and masking rate of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bmtools.errors import setting
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import BatchConfig


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
    def is_last(self) -> bool:
        """Whether this is the last step of its phase."""
        return self.step == self.steps - 1

    @property
    def batch_size(self) -> int:
        """Sequences of this batch, over all processes.

        A linear ramp leads to the full size, in steps of the initial size.
        """
        batch = self.phase.batch
        ramp = round(batch.ramp_ratio * self.steps) if batch.initial_batch_size else 0
        if self.step >= ramp:
            return batch.batch_size
        start = batch.initial_batch_size
        grown = start + (batch.batch_size - start) * self.step / ramp
        return max(start, int(grown) // start * start)

    @property
    def mask_rate(self) -> float:
        """Share of tokens to mask.

        Source: steps from 5 % to 25 % in five stairs are in Gu et al. 2021 (BLURB), section 2.3.
        """
        objective, progress = self.phase.objective, self.progress
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

    def unfinished_warmups(self) -> Iterator[str]:
        """Warn of each phase that ends before its warm-up, which is kept as it was set."""
        for phase, steps in zip(self.phases, self.steps_per_phase, strict=True):
            rate = phase.learning_rate
            if rate.warmup_steps > steps:
                yield (f"phase {phase.name!r}: {setting('warmup_steps')} is {rate.warmup_steps}, "
                       f"but the phase ends after {steps}: the learning rate rises to "
                       f"{rate.at(steps - 1, steps):.2g} and NEVER REACHES its peak of "
                       f"{rate.learning_rate:g}; set fewer, or {setting('warmup_ratio')}")


def count_steps(phase: Phase, sequences: float, tokens_per_sequence: float) -> int:
    """Count the steps of a phase; lengths in tokens and epochs are rounded up.

    Args:
        phase: with its length and its batches.
        sequences: sequences of an epoch.
        tokens_per_sequence: average tokens of a full sequence.
    """
    length, batch = phase.length, phase.batch
    if length.steps:
        return length.steps
    total = length.tokens / tokens_per_sequence if length.tokens else length.epochs * sequences
    return max(1, math.ceil(total / _mean_batch_size(batch) - 1e-6))


def _mean_batch_size(batch: BatchConfig) -> float:
    """Average the sizes of a phase's batches; those of a ramp are multiples of the initial size."""
    start, end = batch.initial_batch_size or batch.batch_size, batch.batch_size
    missing = sum((end - size) * (min(size + start, end) - size)
                  for size in range(start, end, start))
    return end - batch.ramp_ratio * missing / max(end - start, 1)
