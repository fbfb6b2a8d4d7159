"""Metrics of a run: means since the last report, and throughput."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from accelerate import Accelerator
from transformers import PretrainedConfig

from bmtools.data.phase_lengths import attended_tokens
from bmtools.data.sampler import STREAM, StreamPosition
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError
from bmtools.models.hardware import (
    Hardware,
    describe_hardware,
    model_flop_utilisation,
    training_flops_per_token,
)
from bmtools.recipes.phases import PhaseStep, Schedule
from bmtools.recipes.settings import OptimizationConfig
from bmtools.records import JsonObject

_DIGITS = 6


@dataclass(frozen=True)
class Figures:
    """Results of an update that a device computed.

    Args:
        losses: means in nats: `loss`, the weighted sum that was minimised, then its terms and other
            metrics.
        gradient_norm: norm before clipping; 0 if the loss scaler of fp16 skipped the update.
        skipped: whether the update was skipped because of a spike.
    """

    losses: dict[str, float]
    gradient_norm: float = 0.0
    skipped: bool = False


@dataclass(frozen=True)
class StepResult:
    """One update.

    Args:
        number: number of the step, from 1.
        figures: returns losses and the gradient norm; may wait for the device, and raises
            DivergedError for values that are not finite.
        learning_rate: learning rate of this update.
        counts: counts of the complete batch, over all processes.
        stop: whether a process was asked to stop.
        following: position at which a resumed run continues in the text.
        replayed: results of the batch of earlier text whose gradients are part of the update, if
            any.
    """

    number: int
    figures: Callable[[], Figures]
    learning_rate: float
    counts: dict[str, int]
    stop: bool = False
    following: StreamPosition | None = None
    replayed: StepResult | None = None

    @property
    def losses(self) -> dict[str, float]:
        """Losses in the results of this step."""
        return self.figures().losses


@dataclass
class Progress:
    """Progress of a run, saved with each state.

    Args:
        identity: settings and inputs that must not change when the run is resumed, by name.
        step: number of finished updates.
        tokens_seen: tokens trained on, without padding.
        wall_seconds: time spent in all sessions.
        pending: sums since the last line of metrics, by name.
        metrics: lines of metrics so far.
        retained: losses on the text to retain, before and after.
        scaler: state of the loss scaler of fp16; empty in other precisions.
        stream: version of the sampling order.
        positions: positions at which the run continues in the text and the text to replay, by
            corpus; plain values.
        energy: energy of all sessions, in the form of `meter.current`.
        recent: loss and gradient norm of the last steps of a phase; empty if no spikes are skipped.
    """

    identity: Mapping[str, object]
    step: int = 0
    tokens_seen: int = 0
    wall_seconds: float = 0.0
    pending: dict[str, float] = field(default_factory=dict)
    metrics: list[JsonObject] = field(default_factory=list)
    retained: JsonObject = field(default_factory=dict)
    scaler: JsonObject = field(default_factory=dict)
    stream: int = STREAM
    positions: JsonObject = field(default_factory=dict)
    energy: JsonObject = field(default_factory=dict)
    recent: list[list[float]] = field(default_factory=list)

    def position(self, corpus: str) -> StreamPosition | None:
        """Return the position at which the run continues in a corpus; None for the beginning."""
        content = self.positions.get(corpus)
        return StreamPosition.from_json(content) if content else None


class DivergedError(BmtoolsError):
    """A loss, gradient or weight that is not finite."""


@dataclass(frozen=True)
class Speed:
    """Hardware and cost of training, to turn throughput into utilisation.

    Args:
        device: hardware of each process.
        precision: precision of matrix products: no, tf32, bf16 or fp16.
        processes: number of processes that share the work.
        flops_per_token: operations per token of each phase, forward and backward; None if unknown.
    """

    device: Hardware
    precision: str
    processes: int
    flops_per_token: Sequence[float | None]

    def utilisation(self, phase: int, tokens_per_second: float) -> float | None:
        """Return the share of the devices' peak that is used; None if the peak is unknown."""
        flops = self.flops_per_token[phase]
        return None if flops is None else model_flop_utilisation(
            flops * tokens_per_second / self.processes, self.device, self.precision)


def speed_of(config: PretrainedConfig, schedule: Schedule, corpora: Mapping[str, Corpus],
             settings: OptimizationConfig, accelerator: Accelerator) -> Speed:
    """Compute the cost of a token in each phase, on this device."""
    flops = [training_flops_per_token(
        config, attended_tokens(phase, corpora),
        1.0 if phase.objective.objective == "causal" else phase.objective.mask_rate)
        for phase in schedule.phases]
    precision = "tf32" if settings.precision == "no" and settings.tf32 else settings.precision
    return Speed(describe_hardware(str(accelerator.device)), precision, accelerator.num_processes,
                 flops)


class Reporter:
    """Running sums over steps, turned into lines of metrics.

    Args:
        progress: progress of the run; stores sums and lines.
        every: number of steps between lines.
        steps: number of steps of the run.
        speed: hardware and cost of a token.
    """

    def __init__(self, progress: Progress, every: int, steps: int, speed: Speed) -> None:
        self._progress = progress
        self._every = every
        self._steps = steps
        self._speed = speed
        self._reported = progress.tokens_seen, progress.wall_seconds
        self._began = progress.step, progress.wall_seconds
        self._last: StepResult | None = None
        self._skipped: list[JsonObject] = []

    def skipped(self) -> list[JsonObject]:
        """Return a line and a note for each skipped update since the last call."""
        lines, self._skipped = self._skipped, []
        return lines

    def settle(self) -> None:
        """Add the last step to the sums; this waits for the device."""
        if self._last is None:
            return
        step, self._last = self._last, None
        pending, found = self._progress.pending, step.figures()
        values = {**found.losses, **step.counts, "steps": 1, "gradient_norm": found.gradient_norm}
        if step.replayed:
            values |= {"replayed": 1, "replay_loss": step.replayed.losses["loss"]}
        for name, value in values.items():
            pending[name] = pending.get(name, 0) + value
        if found.skipped:
            loss, norm = found.losses["loss"], found.gradient_norm
            line: JsonObject = {"step": step.number, "skipped": {
                "loss": round(loss, _DIGITS), "gradient_norm": round(norm, _DIGITS)}}
            self._progress.metrics.append(line)
            self._skipped += [line, {
                "note": f"skipped the update of step {step.number}: its loss {loss:.4g} or its "
                        f"gradient norm {norm:.4g} is far above the steps before it"}]

    def account(self, step: StepResult, phase_step: PhaseStep) -> JsonObject | None:
        """Record a step; return a line at a phase's end and every few steps.

        A step is added to the sums at the next call, when the device has computed it.
        """
        self.settle()
        progress, self._last = self._progress, step
        progress.step = step.number
        progress.tokens_seen += step.counts["tokens"]
        if step.number % self._every and not phase_step.is_last:
            return None
        self.settle()
        sums, progress.pending = progress.pending, {}
        line: JsonObject = {"step": step.number, "of": self._steps,
                            "phase": phase_step.phase.name}
        line |= {name: round(sums[name] / sums["steps"], _DIGITS) for name in step.losses}
        line |= {"learning_rate": step.learning_rate,
                 "gradient_norm": round(sums["gradient_norm"] / sums["steps"], _DIGITS),
                 "batch_size": step.counts["sequences"]}
        if "maskable" in sums:
            line |= {"mask_rate": round(sums["masked"] / max(sums["maskable"], 1), 4),
                     "words_masked": round(sums["words_masked"] / max(sums["words"], 1), 4)}
        if sums.get("replayed"):
            line["replay_loss"] = round(sums["replay_loss"] / sums["replayed"], _DIGITS)
        line["tokens_seen"] = progress.tokens_seen
        tokens, seconds = self._reported
        rate = (progress.tokens_seen - tokens) / max(progress.wall_seconds - seconds, 1e-9)
        self._reported = progress.tokens_seen, progress.wall_seconds
        first, began = self._began
        per_step = (progress.wall_seconds - began) / max(step.number - first, 1)
        line["tokens_per_second"] = round(rate)
        line["seconds_left"] = round(per_step * (self._steps - step.number), 1)
        utilisation = self._speed.utilisation(phase_step.phase_number, rate)
        if utilisation is not None:
            line["model_flop_utilisation"] = round(utilisation, 4)
        progress.metrics.append(line)
        return line
