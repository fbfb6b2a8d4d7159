"""Forecast of a pretraining run on this machine, measured on some of its steps."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from bmtools.data.batches import RankBatch
from bmtools.data.phase_lengths import epoch_size
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError, Reject, refuse, setting
from bmtools.models.hardware import Hardware, most_energy_kwh
from bmtools.models.memory import GIB
from bmtools.models.precision import choose_precision
from bmtools.models.varlen import loops_over_documents
from bmtools.recipes.phases import Phase, PhaseStep, Schedule
from bmtools.recipes.settings import PreflightConfig
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.training.checks import check_settings
from bmtools.training.microbatch import StepMemory, measure_memory
from bmtools.training.model_init import load_initial_model
from bmtools.training.plan import (
    REPLAY,
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    plan_pretraining,
)
from bmtools.training.run import Run, prepare_run

Number = TypeVar("Number", float, float | None)
_MIN_STEPS = 3
# Share of the probe's time that one step may take; of a larger batch a part is timed.
_STEP_SHARE = 0.2
_DIGITS = 4


@dataclass(frozen=True)
class PhaseForecast:
    """Forecast of a phase.

    Args:
        name: of the phase.
        steps: updates.
        tokens: trained on in all steps, without padding.
        max_length: tokens of the longest sequence.
        batch_size: sequences of a step, over all processes.
        layout: packed or padded.
        fill_rate: share of positions that hold a token and no padding.
        micro_batch_size: sequences of a forward and backward pass.
        memory_gib: peak memory of a process in GiB: of the GPU, or of the machine.
        frozen_parameters: number of weights that are not trained.
        tokens_per_second: of one process.
        model_flop_utilisation: share of the GPU's peak; None where that is not known.
        hours: in all, with replayed batches, without evaluations and saved states; None where
            several processes will share the work.
        kwh: most energy that the GPU's board draws in that time; None where not known.
    """

    name: str
    steps: int
    tokens: int
    max_length: int
    batch_size: int
    layout: str
    fill_rate: float
    micro_batch_size: int
    memory_gib: float
    frozen_parameters: int
    tokens_per_second: int
    model_flop_utilisation: float | None
    hours: float | None
    kwh: float | None


@dataclass(frozen=True)
class Forecast:
    """Forecast of a run.

    Args:
        device: that computes.
        precision: of matrix products: no (float32), tf32, bf16 or fp16.
        native: whether the device has instructions for that precision.
        parameters: number of weights of the model.
        packing_check: "passed" where documents share sequences without attending to each other;
            else None.
        processes: that will share the work.
        phases: forecast of each.
        hours: of all phases; None where that of one is not known.
        kwh: of all phases, likewise.
        warnings: problems with these settings.
        notes: settings that were left to this machine, and what it chose.
    """

    device: Hardware
    precision: str
    native: bool
    parameters: int
    packing_check: str | None
    processes: int
    phases: tuple[PhaseForecast, ...]
    hours: float | None
    kwh: float | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def record(self) -> JsonObject:
        """Return plain values for JSON."""
        device = self.device
        return {**asdict(self), "device": {
            "name": device.name, "kind": device.kind, "count": device.count,
            "memory_gib": round(device.memory_bytes / GIB, 2), "bf16": device.bf16}}


def preflight(data: Data, *, model: str | Path | None = None, architecture: str | None = None,
              tokenizer: str | Path | None = None, recipe: str | None = None,
              phases: str | Path | None = None,
              probe_seconds: float = PreflightConfig.probe_seconds, processes: int = 1,
              **settings: object) -> Forecast:
    """Forecast what `pretrain` with the same arguments takes on this machine; nothing is kept.

        preflight("corpus.jsonl", architecture="bert-small", tokenizer="vocabulary", epochs=3).hours

    Args:
        data: as for `pretrain`, like all that follow but the last two.
        model: checkpoint to continue; or else
        architecture: of a model with new weights.
        tokenizer: directory of the tokenizer for an architecture.
        recipe: name of a recipe that gives phases and settings.
        phases: TOML file that gives them.
        probe_seconds: seconds that steps of each phase are timed for.
        processes: that will share the work; this one takes the share of one of them.
        settings: of all phases or of the run, by name.

    Raises:
        ValueError: a setting that is unknown, out of range or at odds with another one.
        BmtoolsError: as for `forecast_run`.
    """
    plan, init, data_config = plan_pretraining(data, "model", model, architecture, tokenizer,
                                               recipe, phases, settings)
    return forecast_run(plan, init, data_config, refuse, PreflightConfig(probe_seconds), processes)


def forecast_run(plan: TrainingPlan, model: ModelInit, data: DataConfig, reject: Reject,
                 probe: PreflightConfig, processes: int = 1, sharded: bool = False) -> Forecast:
    """Time some steps of each phase and forecast the whole run; nothing is kept.

    The steps are real but for their learning rate, which is 0. Records are tokenized to a
    temporary directory; nothing is written anywhere else.

    Args:
        plan: of the run; its output is not touched.
        model: to train.
        data: to train on.
        reject: receives bad records.
        probe: how long to measure.
        processes: that will share the work; this one takes the share of one of them.
        sharded: whether they will share weights too, which is checked but not tried.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: the run could not take its first step, or memory does not hold a single
            sequence.
    """
    if sharded:
        check_settings(plan, data, processes, sharded)
    with tempfile.TemporaryDirectory(prefix="bmtools-preflight-") as directory:
        temporary = replace(plan, output=Path(directory) / "model", resume=False, overwrite=False,
                            reporting=replace(plan.reporting, trackers=""))
        initial = load_initial_model(model, plan.optimization.seed, plan.config.phases,
                                     positions=plan.initialization.positions)
        with prepare_run(temporary, initial, data, reject, processes=processes) as run:
            return _Forecaster(plan, run, probe, processes).forecast()


class _Forecaster:
    """Measures a run that is ready for its first step.

    Args:
        plan: of the run.
        run: prepared from the plan.
        probe: how long to measure.
        processes: that will share the work.
    """

    def __init__(self, plan: TrainingPlan, run: Run, probe: PreflightConfig,
                 processes: int) -> None:
        self._plan = plan
        self._run = run
        self._probe = probe
        self._processes = processes
        self._speed = run.speed
        device = self._speed.device
        self._memory_limit = device.memory_bytes / (processes if device.kind == "cpu" else 1)
        set_status("measuring memory")
        self._memory = [measure_memory(plan, run.trainer, phase, run.packed, processes,
                                       self._memory_limit) for phase in run.schedule.phases]

    def forecast(self) -> Forecast:
        """Measure each phase, unless its memory does not suffice."""
        run = self._run
        device, precision, option = \
            self._speed.device, self._speed.precision, setting("mixed_precision")
        if precision == "tf32" and not (device.kind == "cuda" and device.bf16):
            precision = "no"  # a GPU without instructions for TF32 uses float32
        native = precision != "bf16" or device.bf16
        warnings = []
        if not native:
            warnings.append(f"{option} {precision} is EMULATED here, which is slower than float32")
        if precision == self._plan.optimization.mixed_precision == "no" \
                and device.kind == "cpu" and device.bf16 and choose_precision(
                    run.trainer.objective.model.config, run.accelerator.device).precision == "bf16":
            warnings.append(f"{option} bf16 would be faster: this processor multiplies bfloat16")
        if run.packed and loops_over_documents(run.accelerator.device):
            warnings.append(
                f"{setting('layout')} packed calls attention ONCE FOR EACH RUN of documents of "
                "equal length in every layer, about nine times as many operations a pass: torch "
                f"has kernels for them on NVIDIA's GPUs alone; try {setting('layout')} padded")
        warnings += self._memory_warnings()
        warnings += run.schedule.unfinished_warmups()
        if self._processes > 1:
            warnings.append(
                f"tokens a second are those of one process alone; {self._processes} "
                "together were not measured, so hours and energy are left out")
        run.trainer.steps, run.trainer.learning_rate = sys.maxsize, lambda _step: 0.0
        phases = tuple(map(self._forecast_phase, range(len(run.schedule.phases))))
        return Forecast(
            device, precision, native, _count_weights(run), "passed" if run.packed else None,
            self._processes, phases, _sum([phase.hours for phase in phases]),
            _sum([phase.kwh for phase in phases]), tuple(warnings),
            tuple(note for note in run.notes if note not in warnings))

    def _forecast_phase(self, number: int) -> PhaseForecast:
        run, phase = self._run, self._run.schedule.phases[number]
        steps = run.schedule.steps_per_phase[number]
        sequences = sum(PhaseStep(number, phase, step, steps).batch_size for step in range(steps))
        _, tokens_per_sequence = epoch_size(phase, run.datasets.train, run.packed,
                                            run.trainer.settings.seed)
        tokens = round(sequences * tokens_per_sequence)
        run.enter(run.schedule.phase_step(sum(run.schedule.steps_per_phase[:number])))
        rate, fill_rate = self._measure_speed(phase, steps, self._memory[number])
        hours = kwh = None
        if self._processes == 1:
            every = self._plan.replay.replay_steps
            replayed = 1 / every if every and REPLAY in run.datasets.auxiliary else 0
            hours = tokens * (1 + replayed) / rate / 3600
            kwh = most_energy_kwh(replace(self._speed.device, count=1), hours * 3600)
        size = self._micro_batch_size(phase)
        return PhaseForecast(
            phase.name, steps, tokens, phase.batch.max_length, phase.batch.batch_size,
            "packed" if run.packed else "padded", _rounded(fill_rate), size,
            _rounded(self._memory[number].total_bytes(size) / GIB),
            _count_weights(run, run.frozen[number]), round(rate),
            _rounded(self._speed.utilisation(number, rate)), _rounded(hours), _rounded(kwh))

    def _measure_speed(self, phase: Phase, steps: int, memory: StepMemory) -> tuple[float, float]:
        """Return tokens a second in a phase, and the share of positions that hold a token.

        The batch grows until a step takes long enough. Of a batch that takes too long a part is
        measured, which counts the cost of an update too often rather than too rarely.
        """
        set_status(f"timing steps of phase {phase.name}")
        trainer, most = self._run.trainer, phase.batch.batch_size // self._processes
        fitting = memory.sequences_within(self._memory_limit)
        if fitting < self._micro_batch_size(phase):
            most = min(most, fitting)
        size, longest = 1, self._probe.probe_seconds * _STEP_SHARE
        while True:
            batches = _ProbeBatches(self._run, phase, steps, size)
            trainer.step(0, batches.batch(0))  # warms up
            start = time.perf_counter()
            trainer.step(1, batches.batch(1))
            seconds = time.perf_counter() - start
            if size == most or seconds > longest / 2:
                break
            size = min(most, max(2 * size, int(size * longest / seconds)))
        batches = _ProbeBatches(self._run, phase, steps, size)
        rate = batches.tokens_per_second(self._probe.probe_seconds)
        return rate, batches.tokens / batches.positions

    def _micro_batch_size(self, phase: Phase) -> int:
        share = phase.batch.batch_size // self._processes
        return min(self._run.micro_batch_sizes[phase.name] or share, share)

    def _memory_warnings(self) -> Iterator[str]:
        """Compare what phases take with the memory of this machine.

        Raises:
            BmtoolsError: a single sequence does not fit.
        """
        limit = self._memory_limit
        for phase, memory in zip(self._run.schedule.phases, self._memory, strict=True):
            fitting, size = memory.sequences_within(limit), self._micro_batch_size(phase)
            if not fitting:
                raise BmtoolsError(
                    f"phase {phase.name!r}: a single sequence of {phase.batch.max_length} tokens "
                    f"takes {memory.total_bytes(1) / GIB:,.1f} GiB, but a process may use "
                    f"{limit / GIB:,.1f}; lower {setting('max_length')}, add "
                    f"{setting('activation_checkpointing')} or take a smaller model")
            if fitting < size:
                yield (f"phase {phase.name!r}: a micro-batch of {size} sequences may take "
                       f"{memory.total_bytes(size) / GIB:,.0f} GiB and a process may use "
                       f"{limit / GIB:,.0f}: it may run OUT OF MEMORY; about {fitting} sequences "
                       f"fit, see {setting('micro_batch_size')} and {setting('memory_gib')}")


class _ProbeBatches:
    """Batches of a phase at a size of its own, without end.

    Args:
        run: whose datasets and trainer are used.
        phase: of the run.
        steps: of the phase; then its batches begin again.
        batch_size: sequences of a batch.
    """

    def __init__(self, run: Run, phase: Phase, steps: int, batch_size: int) -> None:
        batch = replace(phase.batch, batch_size=batch_size, initial_batch_size=0)
        sampler = Sampler(run.datasets.train, Schedule([replace(phase, batch=batch)], [steps]),
                          run.packed, run.trainer.settings.seed)
        self._run = run
        self._steps = steps
        self._max_length = phase.batch.max_length
        self._batches = run.make_batches(sampler, run.datasets.train)
        self.tokens = self.positions = 0  # of the batches made so far

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make a batch from its number."""
        batch = self._batches.batch(number % self._steps, rank, world_size)
        self.tokens += batch.counts["tokens"]
        self.positions += batch.counts["sequences"] * self._max_length if self._run.packed else \
            sum(inputs["input_ids"].numel() for inputs in batch.micro_batches)
        return batch

    def tokens_per_second(self, seconds: float) -> float:
        """Train for so long, three steps at least, and return the median over steps.

        The first step, which also waits for its batch, does not count.
        """
        rates: list[float] = []
        with closing(self._run.trainer.run(self)) as steps:
            next(steps)
            start = last = time.perf_counter()
            for step in steps:
                now = time.perf_counter()
                rates.append(step.counts["tokens"] / (now - last))
                last = now
                if now - start >= seconds and len(rates) >= _MIN_STEPS:
                    break
        return median(rates)


def _count_weights(run: Run, names: set[str] | None = None) -> int:
    """Count the model's weights, or those with these names."""
    return sum(weight.numel() for name, weight in run.trainer.objective.model.named_parameters()
               if names is None or name in names)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(sum(known)) if len(known) == len(values) else None


def _rounded(number: Number) -> Number:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
