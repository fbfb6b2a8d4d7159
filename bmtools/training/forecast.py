"""Forecast of a training run on this machine, from measurements of a few steps."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from bmtools.data.batches import ScheduledBatches
from bmtools.data.phase_lengths import epoch_size
from bmtools.errors import BmtoolsError, Reject, setting
from bmtools.io.provenance.manifest import is_finished, read_manifest
from bmtools.lazy import imports_undone
from bmtools.models.cards import CARDS, MFU
from bmtools.models.hardware import Hardware, most_energy_kwh
from bmtools.models.memory import GIB
from bmtools.recipes.phases import Phase, Schedule
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.training.microbatch import StepMemory
from bmtools.training.model_init import InitialModel
from bmtools.training.plan import MAIN, REPLAY, DataConfig, TrainingPlan, runs_directory
from bmtools.training.run import Run, describe, prepare_run, train

PROBE_SECONDS = 5.0
"""Time for measuring the steps of a phase."""
_MIN_STEPS = 3
# Maximum share of the probe's time for one step. For a larger batch only a part is timed.
_STEP_SHARE = 0.2
_DIGITS = 4
_CARD_WARNING = ("forecast for {}, which this machine does not have: nothing was timed, and memory "
                 "was measured on this machine; values assume {}, {} and {} % of the card's peak; "
                 "BERT-base reached the first on one H100; small models and batches reach less")


def forecast(plan: TrainingPlan, initial: InitialModel, data: DataConfig, reject: Reject,
             processes: int = 1, device_kind: str = "") -> Iterator[JsonObject]:
    """Time some steps of each phase, without output, and yield a forecast of the complete run.

    The steps are real except for their learning rate, which is 0. Records are tokenized to a
    temporary directory. Nothing is written anywhere else. Unknown values of the forecast are None.
    For several processes, hours assume a perfect speed-up, and a warning is added.

    Args:
        plan, initial, data, reject: as for `train`; the output is not changed.
        processes: number of processes that will share the work; only one share is measured.
        device_kind: short name of a card that this machine does not have. Then no step is timed,
            and speed, hours and energy are lists with one value for each share in `cards.MFU`.

    Raises:
        BmtoolsError: the run's first step fails, the card or the architecture is unknown, or memory
            is too small for a single sequence.
    """
    with tempfile.TemporaryDirectory(prefix="bmtools-dry-run-") as directory:
        temporary = replace(plan, output=Path(directory) / "model", resume=False, overwrite=False)
        with prepare_run(temporary, initial, data, reject, processes) as run:
            yield _Forecaster(plan, run, processes, device_kind).forecast()


def run_to_end(plan: TrainingPlan, lines: Callable[..., Iterator[JsonObject]],
               on_report: Callable[[JsonObject], None] | None, dry_run: bool) -> JsonObject:
    """Run a plan to its end and return its last line; a resumed, finished run has only this line.

    Args:
        plan: settings of the run.
        lines: function that yields the lines of the run, or of another function passed to it.
        on_report: called with each line except the last.
        dry_run: return a forecast instead.
    """
    last: JsonObject = {}
    with _process_restored():
        if not dry_run:
            if plan.resume and is_finished(plan.output, runs_directory(plan.output)):
                return describe(str(plan.output), read_manifest(plan.output))
            plan.check_targets()
        for line in lines(forecast if dry_run else train):
            if last and on_report:
                on_report(last)
            last = line
    return last


@contextmanager
def _process_restored() -> Iterator[None]:
    """Restore torch's random state, warning filters and the logging of transformers."""
    from transformers import logging

    verbosity, shows_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with imports_undone(), torch.random.fork_rng(devices):
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if shows_bars:
                logging.enable_progress_bar()


class _Forecaster:
    """Measures a run that is ready for its first step.

    Args:
        plan: plan of the run.
        run: run prepared from the plan.
        processes: number of processes that will share the work.
        device_kind: card that this machine does not have; may be empty.
    """

    def __init__(self, plan: TrainingPlan, run: Run, processes: int, device_kind: str) -> None:
        self._plan = plan
        self._run = run
        self._processes = processes
        self._card = CARDS[device_kind] if device_kind else None
        self._speed, here = run.speed, run.speed.device
        if card := self._card:
            precision = plan.optimization.precision.replace("auto", "bf16" if card.bf16 else "fp16")
            device = Hardware("cuda", card.kind, 1, card.gigabytes * 10**9, card.bf16, card.watts)
            self._speed = replace(run.speed, device=device, precision=precision)
        device = self._speed.device
        self._memory_limit = device.memory_bytes / (processes if device.kind == "cpu" else 1)
        # This is the best case. Each process has a GPU, but processes on a CPU share the cores that
        # one process used here.
        self._speed_up = 1 if device.kind == "cpu" else processes
        set_status("measuring memory")
        self._memory = [StepMemory(plan, run.trainer, phase, run.packed, processes,
                                   min(self._memory_limit, here.memory_bytes))
                        for phase in run.schedule.phases]

    def forecast(self) -> JsonObject:
        """Measure each phase, if memory is sufficient."""
        run = self._run
        device, precision = self._speed.device, self._speed.precision
        if precision == "tf32" and not (device.kind == "cuda" and device.bf16):
            precision = "no"  # a GPU without instructions for TF32 uses float32
        is_emulated = precision == "bf16" and not device.bf16
        warnings = [f"{setting('precision')} {precision} is EMULATED here, which is slower than "
                    "float32"] * is_emulated
        warnings += [*self._memory_warnings(), *run.schedule.unfinished_warmups()]
        if self._card:
            warnings.append(_CARD_WARNING.format(device.name, *[round(100 * one) for one in MFU]))
        elif self._processes > 1:
            times = f"{self._speed_up} times " * (self._speed_up > 1)
            warnings.append(
                "tokens per second are for one process; hours and energy assume, without a "
                f"measurement, that {self._processes} processes are {times}as fast as one: expect "
                "more")
        run.trainer.steps, run.trainer.learning_rate = sys.maxsize, lambda _step: 0.0
        phases = [self._forecast_phase(number) for number in range(len(run.schedule.phases))]
        return {
            "device": {"name": device.name, "kind": device.kind, "count": device.count,
                       "memory_gib": round(device.memory_bytes / GIB, 2), "bf16": device.bf16},
            "precision": precision,
            "parameters": run.trainer.objective.model.num_parameters(),
            "processes": self._processes, "phases": phases,
            **{name: [*map(_sum, zip(*(phase[name] for phase in phases), strict=True))]
               if self._card else _sum([phase[name] for phase in phases])
               for name in ("hours", "kwh")},
            "warnings": warnings,
            "notes": [note for note in run.notes if note not in warnings and not self._card]}

    def _forecast_phase(self, number: int) -> JsonObject:
        run, phase = self._run, self._run.schedule.phases[number]
        steps = run.schedule.steps_per_phase[number]
        sequences = steps * phase.batch.batch_size
        _, tokens_per_sequence = epoch_size(phase, run.datasets.train, run.packed,
                                            run.trainer.settings.seed)
        tokens = round(sequences * tokens_per_sequence)
        run.enter(run.schedule.phase_step(sum(run.schedule.steps_per_phase[:number])))
        flops = self._speed.flops_per_token[number]
        if self._card and flops is None:
            raise BmtoolsError(f"{setting('device_kind')}: the operations of this architecture are "
                               "unknown; make the dry run on such a card instead")
        rates = self._card.rates(
            flops, phase.batch.batch_size * tokens_per_sequence,
            run.trainer.objective.model.num_parameters(), self._processes, self._speed.precision) \
            if self._card and flops else [self._measure_speed(phase, self._memory[number])]
        every = self._plan.pretraining.replay_steps
        replayed = 1 / every if every and REPLAY in run.datasets.auxiliary else 0
        seconds = [tokens * (1 + replayed) / rate for rate in rates]
        board = replace(self._speed.device, count=1)
        values: JsonObject = {
            "tokens_per_second": [round(rate) for rate in rates],
            "model_flop_utilisation": [_rounded(self._speed.utilisation(number, rate))
                                       for rate in rates],
            "hours": [_rounded(one / self._speed_up / 3600) for one in seconds],
            "kwh": [_rounded(most_energy_kwh(board, one)) for one in seconds]}
        size = self._micro_batch_size(phase)
        return {
            "name": phase.name, "steps": steps, "tokens": tokens,
            "max_length": phase.batch.max_length, "batch_size": phase.batch.batch_size,
            "layout": "packed" if run.packed else "padded", "micro_batch_size": size,
            "memory_gib": _rounded(self._memory[number].total_bytes(size) / GIB),
            **(values if self._card else {name: one for name, [one] in values.items()})}

    def _measure_speed(self, phase: Phase, memory: StepMemory) -> float:
        """Return the median tokens per second in a phase, over some seconds.

        The batch grows until a step takes long enough. For a batch that takes too long, only a part
        is measured. This overestimates the cost of updates.
        """
        set_status(f"timing steps of phase {phase.name}")
        trainer, most = self._run.trainer, phase.batch.batch_size // self._processes
        fitting = memory.sequences_within(self._memory_limit)
        if fitting < self._micro_batch_size(phase):
            most = min(most, fitting)
        size, longest = 1, PROBE_SECONDS * _STEP_SHARE
        while True:
            batches = self._probe(phase, size)
            trainer.step(0, batches.batch(0))  # warms up
            start = time.perf_counter()
            trainer.step(1, batches.batch(1))
            seconds = time.perf_counter() - start
            if size == most or seconds > longest / 2:
                break
            size = min(most, max(2 * size, int(size * longest / seconds)))
        rates: list[float] = []
        with closing(trainer.run(self._probe(phase, size))) as steps:
            next(steps)  # also waits for its batch
            start = last = time.perf_counter()
            while last - start < PROBE_SECONDS or len(rates) < _MIN_STEPS:
                tokens, before = next(steps).counts["tokens"], last
                last = time.perf_counter()
                rates.append(tokens / (last - before))
        return median(rates)

    def _probe(self, phase: Phase, batch_size: int) -> ScheduledBatches:
        """Make endless batches of a phase with another size."""
        batch = replace(phase.batch, batch_size=batch_size)
        return self._run.make_batches(MAIN, Schedule([replace(phase, batch=batch)], [sys.maxsize]))

    def _micro_batch_size(self, phase: Phase) -> int:
        share = phase.batch.batch_size // self._processes
        return min(self._run.micro_batch_sizes[phase.name] or share, share)

    def _memory_warnings(self) -> Iterator[str]:
        """Compare the memory that phases need with the memory of this machine.

        Raises:
            BmtoolsError: a single sequence does not fit.
        """
        limit = self._memory_limit
        for phase, memory in zip(self._run.schedule.phases, self._memory, strict=True):
            fitting, size = memory.require_one(phase, limit), self._micro_batch_size(phase)
            if fitting < size:
                yield (f"phase {phase.name!r}: a micro-batch of {size} sequences may take "
                       f"{memory.total_bytes(size) / GIB:,.0f} GiB and a process may use "
                       f"{limit / GIB:,.0f}: it may run OUT OF MEMORY; about {fitting} sequences "
                       f"fit, see {setting('micro_batch_size')} and {setting('memory_gib')}")


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(sum(known)) if len(known) == len(values) else None


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
