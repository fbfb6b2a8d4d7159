"""What a run tells of itself: means since the last report, speed, time left, divergence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelerate import Accelerator

from bmtools.data.phase_lengths import attended_tokens
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError
from bmtools.models.flops import training_flops_per_token
from bmtools.models.hardware import Hardware, describe_hardware, model_flop_utilisation
from bmtools.recipes.schedule import PhaseStep, Schedule
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.loop import StepResult
from bmtools.training.resume import Progress

_DIGITS = 6


@dataclass(frozen=True)
class Speed:
    """What is known of the cost of training.

    Args:
        device: what computes.
        precision: what matrices are multiplied in: no, tf32, bf16 or fp16.
        processes: how many share the work.
        flops_per_token: of each phase, forward and backward; None where it is not known.
    """

    device: Hardware
    precision: str
    processes: int
    flops_per_token: Sequence[float | None]

    def utilisation(self, phase: int, tokens_per_second: float) -> float | None:
        """Share of the devices' peak; None where the peak is not known."""
        flops = self.flops_per_token[phase]
        return None if flops is None else model_flop_utilisation(
            flops * tokens_per_second / self.processes, self.device, self.precision)


def speed_of(config: Any, timeline: Schedule, corpora: Mapping[str, Corpus],
             settings: OptimizationConfig, accelerator: Accelerator) -> Speed:
    """Work out what a token costs in each phase, on this device."""
    flops = []
    for phase in timeline:
        asked = 1.0 if phase.objective.objective == "causal" else phase.objective.mask_rate
        flops.append(training_flops_per_token(config, attended_tokens(phase, corpora), asked))
    precision: str = settings.mixed_precision
    if precision == "no" and settings.tf32:
        precision = "tf32"
    return Speed(describe_hardware(str(accelerator.device)), precision, accelerator.num_processes,
                 flops)


class Reporter:
    """Adds up steps and closes them into lines of metrics.

    Args:
        progress: of the run; sums and lines are kept there.
        every: steps between lines.
        steps: of the run.
        speed: what is known of the cost.
    """

    def __init__(self, progress: Progress, every: int, steps: int, speed: Speed) -> None:
        self._progress = progress
        self._every = every
        self._steps = steps
        self._speed = speed
        self._told_seconds = progress.wall_seconds
        self._told_tokens = progress.tokens_seen
        self._begun = (progress.step, progress.wall_seconds)

    def account(self, step: StepResult, stage: PhaseStep,
                replayed: StepResult | None = None) -> dict[str, Any] | None:
        """Add a step, and give a line where one is due: every so often and at a phase's end."""
        progress = self._progress
        progress.step = step.number
        progress.tokens_seen += step.counts["tokens"]
        for name, value in {**step.losses, **step.counts, "steps": 1,
                            "gradient_norm": step.gradient_norm}.items():
            progress.pending[name] = progress.pending.get(name, 0) + value
        if replayed:
            for name, value in {"replayed": 1, "replay_loss": replayed.loss}.items():
                progress.pending[name] = progress.pending.get(name, 0) + value
        if step.number % self._every and not stage.is_last:
            return None
        sums, progress.pending = progress.pending, {}
        line = self._line(step, stage, sums)
        progress.metrics.append(line)
        return line

    def _line(self, step: StepResult, stage: PhaseStep, sums: Mapping[str, float]) -> dict[str,
                                                                                           Any]:
        line: dict[str, Any] = {"step": step.number, "of": self._steps}
        line["phase"] = stage.phase.name
        line |= {name: round(sums[name] / sums["steps"], _DIGITS) for name in step.losses}
        line["learning_rate"] = step.learning_rate
        line["gradient_norm"] = round(sums["gradient_norm"] / sums["steps"], _DIGITS)
        line["batch_rows"] = step.counts["sequences"]
        if "maskable" in sums:
            line["mask_rate"] = round(sums["masked"] / max(sums["maskable"], 1), 4)
            line["words_touched"] = round(sums["touched"] / max(sums["words"], 1), 4)
        if sums.get("replayed"):
            line["replay_loss"] = round(sums["replay_loss"] / sums["replayed"], _DIGITS)
        return {**line, "tokens_seen": self._progress.tokens_seen, **self._pace(step, stage)}

    def _pace(self, step: StepResult, stage: PhaseStep) -> dict[str, Any]:
        progress = self._progress
        seconds = max(progress.wall_seconds - self._told_seconds, 1e-9)
        rate = (progress.tokens_seen - self._told_tokens) / seconds
        self._told_seconds, self._told_tokens = progress.wall_seconds, progress.tokens_seen
        first, begun = self._begun
        per_step = (progress.wall_seconds - begun) / max(step.number - first, 1)
        pace: dict[str, Any] = {"tokens_per_second": round(rate),
                                "seconds_left": round(per_step * (self._steps - step.number), 1)}
        share = self._speed.utilisation(stage.phase_number, rate)
        return pace if share is None else {**pace, "model_flop_utilisation": round(share, 4)}


class DivergenceMonitor:
    """Notices a loss that has left for good.

    The mean of the last steps of a phase is compared with the lowest such mean; a rise by the
    given number of nats is taken for divergence. Phases that ask something else begin anew.

    Args:
        steps: that a mean is taken over.
        rise: in nats.
    """

    def __init__(self, steps: int = 100, rise: float = 2.0) -> None:
        self._steps = steps
        self._rise = rise
        self._phase = -1
        self._count = 0
        self._mean = self._lowest = 0.0

    def look(self, step: StepResult, stage: PhaseStep, way_back: Callable[[], str]) -> None:
        """Take a step into account.

        Args:
            step: just done.
            stage: where it lies.
            way_back: says where to go back to.

        Raises:
            BmtoolsError: the loss diverged.
        """
        if stage.phase_number != self._phase:
            self._phase, self._count, self._lowest = stage.phase_number, 0, float("inf")
        self._count += 1
        share = 1 / min(self._count, self._steps)
        self._mean = step.loss if self._count == 1 else \
            self._mean + share * (step.loss - self._mean)
        if self._count >= self._steps:
            self._lowest = min(self._lowest, self._mean)
        if self._mean > self._lowest + self._rise:
            raise BmtoolsError(
                f"step {step.number}: the loss rose to {self._mean:.2f} from {self._lowest:.2f} "
                f"and diverges; lower --learning-rate or raise --warmup-ratio; {way_back()}")
