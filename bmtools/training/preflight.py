"""What a run will take on this machine, found by taking some of its steps."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bmtools.data.batches import RankBatch
from bmtools.data.phase_steps import epoch_size
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError, Reject
from bmtools.models.hardware import Hardware, most_energy_kwh
from bmtools.models.memory import GIB
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import Schedule, batch_size_at
from bmtools.recipes.settings import PreflightConfig
from bmtools.training.datasets import DataConfig
from bmtools.training.loop import LoopPlan
from bmtools.training.metrics import Speed
from bmtools.training.microbatch import measure_memory
from bmtools.training.plan import REPLAY, TrainingPlan, check_before
from bmtools.training.pretrain import ModelInit, losses_of
from bmtools.training.run import Run, prepare_run
from bmtools.training.step_memory import StepMemory

_FIRST_ROWS = 1
_LEAST_STEPS = 3
# Share of the probe's time that a step may take; a larger batch is probed in part.
_STEP_SHARE = 0.2
_DIGITS = 4


@dataclass(frozen=True)
class PhaseForecast:
    """What a phase will take.

    Args:
        name: of the phase.
        steps: updates.
        tokens: that go in over all steps, padding left out.
        max_length: longest row.
        batch_size: rows a step, over all processes.
        layout: packed or padded.
        filled: share of the places of a row that hold a token; where rows are padded, of the
            places up to the longest row of a pass.
        pass_rows: rows that go through the model at a time.
        memory_gib: that a process takes at most, in GiB: of the GPU, or of the machine.
        frozen_parameters: weights that stay as they are.
        tokens_per_second: of one process.
        model_flop_utilisation: share of the GPU's promised arithmetic; None where not known.
        hours: in all, replayed batches included, evaluations and states to resume from not;
            None where several processes will share the work.
        kwh: most energy that the GPU's board draws in that time; None where not known.
    """

    name: str
    steps: int
    tokens: int
    max_length: int
    batch_size: int
    layout: str
    filled: float
    pass_rows: int
    memory_gib: float
    frozen_parameters: int
    tokens_per_second: int
    model_flop_utilisation: float | None
    hours: float | None
    kwh: float | None


@dataclass(frozen=True)
class Preflight:
    """What a run will take.

    Args:
        device: what computes.
        precision: what matrices are multiplied in: no (float32), tf32, bf16 or fp16.
        native: whether the device has instructions for that.
        parameters: weights of the model.
        packing_check: "passed" where documents share rows and do not see each other; else None.
        processes: that will share the work.
        phases: what each takes.
        hours: of all phases; None where that of one is not known.
        kwh: of all phases, likewise.
        warnings: what speaks against these settings, for people.
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

    def record(self) -> dict[str, Any]:
        """Lay it out as plain values."""
        device = self.device
        return {**asdict(self), "device": {
            "name": device.name, "kind": device.kind, "count": device.count,
            "memory_gib": round(device.memory_bytes / GIB, 2), "bf16": device.bf16}}


def preflight(plan: TrainingPlan, beginning: ModelInit, wanted: DataConfig, reject: Reject,
              probe: PreflightConfig, processes: int = 1, sharded: bool = False) -> Preflight:
    """Take some steps of each phase, and tell what all of them will take; nothing is kept.

    The steps are real but for their learning rate, which is 0. Records are encoded to a temporary
    directory; nothing is written anywhere else.

    Args:
        plan: the run as asked for; its output stays untouched.
        beginning: what to train.
        wanted: the texts.
        reject: receives bad records.
        probe: how to look.
        processes: that will share the work; this one takes the share of one of them.
        sharded: whether they will share weights too, which is not tried.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: what would stop the run before its first step, or not even a row fits into
            the memory that there is.
    """
    if sharded:
        check_before(plan, wanted.trained, processes, sharded)
    with _prepared_aside(plan, beginning, wanted, reject, processes) as run:
        return _Look(plan, run, probe, processes).forecast()


@contextmanager
def _prepared_aside(plan: TrainingPlan, beginning: ModelInit, wanted: DataConfig, reject: Reject,
                    processes: int) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="bmtools-preflight-") as directory:
        aside = replace(plan, output=Path(directory) / "model", resume=False, overwrite=False,
                        reporting=replace(plan.reporting, trackers=""))
        with prepare_run(aside, beginning.start(plan), wanted, reject, losses_of(plan),
                         processes) as run:
            yield run


class _Look:
    """A look at a run that is ready for its first step.

    Args:
        plan: the run as asked for.
        run: it.
        probe: how to look.
        processes: that will share the work.
    """

    def __init__(self, plan: TrainingPlan, run: Run, probe: PreflightConfig,
                 processes: int) -> None:
        self._plan = plan
        self._run = run
        self._probe = probe
        self._processes = processes
        self._speed = run.speed()

    def forecast(self) -> Preflight:
        """Probe each phase."""
        run, speed = self._run, self._speed
        precision, native = _precision(speed)
        demands = [measure_memory(self._plan, run.trainer, phase, run.packed, self._processes,
                                  self._memory_bytes())
                   for phase in run.schedule]
        warnings = [*self._warned(precision, native, demands)]
        run.trainer.plan = LoopPlan(sys.maxsize, lambda _number: 0.0)
        phases = tuple(self._phase(number, demand) for number, demand in enumerate(demands))
        return Preflight(
            speed.device, precision, native, _count(run, None),
            "passed" if run.packed else None, self._processes, phases,
            _sum([phase.hours for phase in phases]), _sum([phase.kwh for phase in phases]),
            tuple(warnings))

    def _phase(self, number: int, demand: StepMemory) -> PhaseForecast:
        run, phase = self._run, self._run.schedule.phases[number]
        steps = run.schedule.steps_per_phase[number]
        rows = sum(batch_size_at(step, steps, phase.batch) for step in range(steps))
        tokens = round(rows * epoch_size(phase, run.datasets.trained, run.packed).max_length)
        run.enter(run.schedule.phase_step(sum(run.schedule.steps_per_phase[:number])))
        rate, filled = self._timed(phase, steps, demand)
        hours = tokens * self._replaying() / rate / 3600 if self._processes == 1 else None
        kwh = None if hours is None else \
            most_energy_kwh(replace(self._speed.device, count=1), hours * 3600)
        return PhaseForecast(
            phase.name, steps, tokens, phase.batch.max_length, phase.batch.batch_size,
            "packed" if run.packed else "padded", _rounded(filled), self._pass_rows(phase),
            _rounded(demand.total_bytes(self._pass_rows(phase)) / GIB),
            _count(run, run.frozen[number]), round(rate),
            _rounded(self._speed.utilisation(number, rate)), _rounded(hours), _rounded(kwh))

    def _timed(self, phase: Phase, steps: int, demand: StepMemory) -> tuple[float, float]:
        """Time steps of a phase: tokens a second, and the share of places that are filled.

        A batch that would take long is probed in part, which counts the cost of an update too
        often rather than too rarely.
        """
        most = self._share(phase)
        fitting = demand.sequences_within(self._memory_bytes())
        if fitting < self._pass_rows(phase):
            most = min(most, fitting)
        rows, longest = min(_FIRST_ROWS, most), self._probe.probe_seconds * _STEP_SHARE
        while True:
            took = self._seconds_of_a_step(phase, steps, rows)
            if rows == most or took > longest / 2:
                break
            rows = min(most, max(2 * rows, int(rows * longest / took)))
        batches = _Again(self._run, phase, steps, rows)
        return batches.tokens_per_second(self._probe.probe_seconds), batches.filled

    def _seconds_of_a_step(self, phase: Phase, steps: int, rows: int) -> float:
        """Time the second step of so many rows; the first one warms up."""
        batches = _Again(self._run, phase, steps, rows)
        self._run.trainer.step(0, batches.batch(0))
        began = time.perf_counter()
        self._run.trainer.step(1, batches.batch(1))
        return time.perf_counter() - began

    def _share(self, phase: Phase) -> int:
        """Rows of a step that one process takes."""
        return phase.batch.batch_size // self._processes

    def _pass_rows(self, phase: Phase) -> int:
        share = self._share(phase)
        return min(self._run.micro_batch_sizes[phase.name] or share, share)

    def _memory_bytes(self) -> float:
        """What one process may use: a GPU, or its part of the machine."""
        device = self._speed.device
        return device.memory_bytes / (self._processes if device.kind == "cpu" else 1)

    def _replaying(self) -> float:
        """Batches in all for each ordinary one."""
        every = self._plan.replay.replay_steps
        return 1 + 1 / every if every and REPLAY in self._run.datasets.others else 1.0

    def _warned(self, precision: str, native: bool, demands: list[StepMemory]) -> Iterator[str]:
        """Say what speaks against the settings.

        Raises:
            BmtoolsError: a row does not fit into the memory that there is.
        """
        if not native:
            yield f"--mixed-precision {precision} is EMULATED here, which is slower than float32"
        if precision == "no" and self._speed.device.kind == "cpu" and self._speed.device.bf16:
            yield "--mixed-precision bf16 would be faster: this processor multiplies bfloat16"
        available = self._memory_bytes()
        for phase, demand in zip(self._run.schedule, demands, strict=True):
            fitting, wanted = demand.sequences_within(available), self._pass_rows(phase)
            if not fitting:
                raise BmtoolsError(
                    f"phase {phase.name!r}: a single row of {phase.batch.max_length} tokens takes "
                    f"{demand.total_bytes(1) / GIB:,.1f} GiB, but a process may use "
                    f"{available / GIB:,.1f}; lower "
                    "--max-length, add --activation-checkpointing or take a smaller model")
            if fitting < wanted:
                yield (f"phase {phase.name!r}: a pass of {wanted} rows may take "
                       f"{demand.total_bytes(wanted) / GIB:,.0f} GiB and a process may use "
                       f"{available / GIB:,.0f}: it may run OUT OF MEMORY; about {fitting} rows "
                       "fit, see --micro-batch-size and --memory-gib")
        if self._processes > 1:
            yield (f"tokens a second are those of one process alone; what {self._processes} give "
                   "together was not tried, so hours and energy are left out")


class _Again:
    """Batches of a phase, as at its full size, as many as are asked for.

    Args:
        run: makes them.
        phase: whose they are.
        steps: of the phase; then they begin again.
        rows: a batch.
    """

    def __init__(self, run: Run, phase: Phase, steps: int, rows: int) -> None:
        alone = Schedule([replace(phase, batch=replace(phase.batch, batch_size=rows,
                                                       initial_batch_size=0))], [steps])
        self._run = run
        self._steps = steps
        self._row_tokens = phase.batch.max_length
        self._batches = run.make_batches(Sampler(run.datasets.trained, alone, run.packed,
                                                 run.trainer.settings.seed),
                                         run.datasets.trained)
        self._tokens = self._places = 0

    @property
    def filled(self) -> float:
        """Share of places that hold a token, in the batches made so far."""
        return self._tokens / self._places

    def batch(self, number: int, process: int = 0, processes: int = 1) -> RankBatch:
        """Make a batch from its number."""
        share = self._batches.batch(number % self._steps, process, processes)
        self._tokens += share.counts["tokens"]
        self._places += share.counts["sequences"] * self._row_tokens if self._run.packed else \
            sum(piece["input_ids"].numel() for piece in share.micro_batches)
        return share

    def tokens_per_second(self, seconds: float) -> float:
        """Train for a while, three steps at least, and give the median over them.

        The first step, which also waits for its batch, does not count.
        """
        rates: list[float] = []
        with closing(self._run.trainer.run(self)) as steps:
            next(steps)
            began = told = time.perf_counter()
            for step in steps:
                now = time.perf_counter()
                rates.append(step.counts["tokens"] / (now - told))
                told = now
                if now - began >= seconds and len(rates) >= _LEAST_STEPS:
                    break
        return median(rates)


def _precision(speed: Speed) -> tuple[str, bool]:
    """What matrices are multiplied in, and whether the device has instructions for it.

    Without those for TF32, a GPU takes float32.
    """
    device, asked = speed.device, speed.precision
    if asked == "tf32" and not (device.kind == "cuda" and device.bf16):
        return "no", True
    return asked, asked != "bf16" or device.bf16


def _count(run: Run, names: set[str] | None) -> int:
    """Count the model's weights, or those named."""
    return sum(weight.numel() for name, weight in run.trainer.objective.model.named_parameters()
               if names is None or name in names)


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return _rounded(sum(known)) if len(known) == len(parts) else None


def _rounded(number: float | None) -> Any:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
