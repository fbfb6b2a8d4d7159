"""A training run from text to a checkpoint, with metrics, states and evaluations on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from torch import nn

from bmtools.data.batches import Collator, ScheduledBatches, SpecialTokens
from bmtools.data.phase_lengths import check_mixture_limits, resolve_steps
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError, Reject
from bmtools.models.checkpoint import load_checkpoint
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.schedule import PhaseStep
from bmtools.training.checkpoints import (
    Checkpointer,
    find_resume_point,
    restore_heads,
    restore_optimizer,
)
from bmtools.training.datasets import Datasets, open_datasets
from bmtools.training.distributed import make_accelerator
from bmtools.training.evaluation import HELD_OUT, EvaluationSet
from bmtools.training.layers import freeze, frozen_names, thaw
from bmtools.training.loop import (
    DivergedError,
    LoopPlan,
    StepResult,
    TimeBudget,
    Trainer,
    stops_on_signals,
)
from bmtools.training.metrics import (
    DivergenceMonitor,
    Reporter,
    Speed,
    named_trackers,
    speed_of,
    start_trackers,
    track,
)
from bmtools.training.microbatch import check_memory, fit_micro_batches
from bmtools.training.model_init import InitialModel, check_fits
from bmtools.training.objectives import PhasedObjective
from bmtools.training.packing_check import is_packed, padded_lengths, prepare_fast, prepare_packing
from bmtools.training.plan import EVALUATE, REPLAY, RETAIN, DataConfig, TrainingPlan, check_before
from bmtools.training.regularization import make_hooks
from bmtools.training.replay import Replay
from bmtools.training.run_directories import logs_directory, runs_directory, tidied
from bmtools.training.sharding import is_sharded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MakeObjective = Callable[["PreTrainedModel", Accelerator], PhasedObjective]


def train(plan: TrainingPlan, initial: InitialModel, data: DataConfig, reject: Reject,
          make_objective: MakeObjective) -> Iterator[dict[str, Any]]:
    """Train and write the checkpoint; yield lines of metrics, then one about the checkpoint.

    A session that is told to stop ends with a line that has the key `stopped`. Lines with the key
    `note` are messages for people. Only the main process yields.

    Args:
        plan: settings of the run.
        initial: the model and its tokenizer.
        data: corpora of the run.
        reject: receives bad records.
        make_objective: makes the objectives of all phases, and that of `HELD_OUT` text, around a
            model.

    Raises:
        BmtoolsError: a setting does not fit the model, the corpora, the processes or memory,
            another run is in the way, or the loss diverged.
    """
    with prepare_run(plan, initial, data, reject, make_objective) as run, \
            stops_on_signals(run.trainer.request_stop):
        for line in run.lines():
            if run.accelerator.is_main_process:
                yield line
    run.accelerator.end_training()


@contextmanager
def prepare_run(plan: TrainingPlan, initial: InitialModel, data: DataConfig, reject: Reject,
                make_objective: MakeObjective, processes: int = 0) -> Iterator[Run]:
    """Prepare a run up to its first step; arguments and errors as for `train`.

    Args:
        processes: that will share the work; 0 for the current number.
    """
    phases = plan.config.phases
    check_fits(initial, phases)
    changing = len({phase.objective.objective for phase in phases}) > 1
    accelerator = make_accelerator(plan.optimization, named_trackers(plan.reporting.trackers),
                                   changing or any(phase.freezes for phase in phases),
                                   logs_directory(plan.output))
    processes = processes or accelerator.num_processes
    sharded = is_sharded(accelerator)
    check_before(plan, data.train, processes, sharded)
    check_memory(plan, initial.config, processes, sharded)
    with tidied(plan.output, accelerator.is_main_process):
        datasets = open_datasets(plan, data, initial, reject, accelerator)
        yield Run(plan, datasets, initial, accelerator, make_objective, processes)


class Run:
    """One session of a run.

    Args:
        plan: settings of the run.
        datasets: of the run.
        initial: the model and its tokenizer.
        accelerator: made by `make_accelerator`.
        make_objective: makes the objectives around a model.
        processes: that will share the work.
    """

    def __init__(self, plan: TrainingPlan, datasets: Datasets, initial: InitialModel,
                 accelerator: Accelerator, make_objective: MakeObjective, processes: int) -> None:
        self._plan = plan
        self.datasets = datasets
        self._initial = initial
        self.accelerator = accelerator
        self.packed = is_packed(plan, accelerator)
        self.schedule = resolve_steps(plan.config.phases, datasets.train, self.packed)
        check_mixture_limits(self.schedule, datasets.train, self.packed)
        self._resume_point = find_resume_point(
            plan, plan.identity(datasets.contents(), initial.vocabulary),
            accelerator.is_main_process)
        self._progress = self._resume_point.progress
        self._earlier_seconds = self._progress.wall_seconds
        self._phase_step = self.schedule.phase_step(self._progress.step)
        self._budget = TimeBudget(plan.began, plan.reporting.budget_seconds())
        self.trainer = self._make_trainer(make_objective)
        self.micro_batch_sizes = fit_micro_batches(plan, self.trainer, self.packed, processes)
        # Patterns that match no weight are found before training.
        self.frozen = [frozen_names(self._objective.model, phase.freeze.frozen_layers,
                                    phase.freeze.patterns()) for phase in self.schedule.phases]
        self._frozen_weights: list[nn.Parameter] = []
        self._checkpointer = Checkpointer(plan, initial, datasets, self.trainer, self._progress, {
            "steps": self.schedule.steps, "layout": "packed" if self.packed else "padded",
            "corpora": {name: {"documents": len(corpus), "tokens": corpus.tokens}
                        for name, corpus in datasets.train.items()}})
        self._batches = self.make_batches(
            Sampler(datasets.train, self.schedule, self.packed, plan.optimization.seed),
            datasets.train)
        self._replay = None
        if plan.replay.replay_steps and REPLAY in datasets.auxiliary:
            self._replay = Replay(plan.replay.replay_steps, {REPLAY: datasets.auxiliary[REPLAY]},
                                  self.schedule, self.packed, plan.optimization.seed,
                                  self.make_batches)

    def _make_trainer(self, make_objective: MakeObjective) -> Trainer:
        plan, state = self._plan, self._resume_point.state
        model = load_checkpoint(state).model if state else self._initial.make()
        prepare_fast(model, self.accelerator)
        if self.packed:
            corpora = self.datasets.train
            prepare_packing(model, self.schedule, corpora, self._collator(corpora),
                            plan.optimization.seed, self.accelerator)
        self._objective = make_objective(model, self.accelerator)
        if state:
            restore_heads(state, self._objective)
        trainer = Trainer(
            self._objective,
            LoopPlan(self.schedule.steps, lambda _number: self._phase_step.learning_rate),
            plan.optimization, self.accelerator, make_hooks(plan, model, state, self.accelerator))
        if state:
            restore_optimizer(state, self._objective, trainer.optimizer)
            if self.accelerator.scaler and self._progress.scaler:
                self.accelerator.scaler.load_state_dict(self._progress.scaler)
        return trainer

    def _collator(self, corpora: Mapping[str, Corpus]) -> Collator:
        return Collator(list(corpora.values()), SpecialTokens.of(self._initial.tokenizer),
                        self.packed, self._plan.optimization.seed, self.datasets.strategies,
                        padded_lengths(self.schedule, self.accelerator))

    def make_batches(self, sampler: Sampler, corpora: Mapping[str, Corpus]) -> ScheduledBatches:
        """Make the batches of a sampler of these corpora, in micro-batches that fit each phase."""
        return ScheduledBatches(sampler, self._collator(corpora), self.micro_batch_sizes)

    def speed(self) -> Speed:
        """Work out the cost of a token in each phase."""
        return speed_of(self._initial.config, self.schedule, self.datasets.train,
                        self._plan.optimization, self.accelerator)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Train, report and save; the last line describes the checkpoint, if it was reached."""
        yield from ({"note": note} for note in self._resume_point.notes)
        if self._plan.reporting.trackers:
            start_trackers(self.accelerator, self._plan.command, self._plan.settings(),
                           self._progress.step)
        self.enter(self._phase_step)
        yield from self._retained("before")
        self._note_time()
        reporter = Reporter(self._progress, self._plan.reporting.logging_steps,
                            self.schedule.steps, self.speed())
        monitor = DivergenceMonitor()
        for step, replayed in self._steps():
            self._note_time()
            line = reporter.account(step, self._phase_step, replayed)
            if line:
                yield self._tracked(line)
            monitor.check(step, self._phase_step.phase_number, self._checkpointer.way_back)
            yield from self._evaluated(step.number)
            self._save(step.number)
            if self._must_end(step):
                yield {"stopped": step.number, "of": self.schedule.steps,
                       "state": str(runs_directory(self._plan.output)),
                       "wall_seconds": round(self._progress.wall_seconds, 3)}
                return
            self._advance(step.number)
        yield from self._retained("after")
        yield self._finish()

    def enter(self, phase_step: PhaseStep) -> None:
        """Begin a phase: its objective, and its frozen weights."""
        self._objective.switch(phase_step.phase.objective.objective)
        thaw(self._frozen_weights)
        self._frozen_weights = freeze(self._objective.model, self.frozen[phase_step.phase_number])

    def _steps(self) -> Iterator[tuple[StepResult, StepResult | None]]:
        """Train; yield each step, with the replayed one where it is due."""
        try:
            for step in self.trainer.run(self._batches, self._progress.step):
                yield step, self._replay.after(step, self.trainer) if self._replay else None
        except DivergedError as error:
            raise BmtoolsError(f"{error}; {self._checkpointer.way_back()}") from error

    def _advance(self, number: int) -> None:
        """Look up the phase of step `number`, from 0, and begin it where it is another one."""
        before, self._phase_step = self._phase_step, self.schedule.phase_step(number)
        if self._phase_step.phase_number != before.phase_number:
            self.enter(self._phase_step)

    def _note_time(self) -> None:
        self._progress.wall_seconds = \
            self._earlier_seconds + time.monotonic() - self._plan.began

    def _tracked(self, line: dict[str, Any]) -> dict[str, Any]:
        if self._plan.reporting.trackers:
            track(self.accelerator, line)
        return line

    def _evaluated(self, number: int) -> Iterator[dict[str, Any]]:
        """Evaluate after a step where it is due: every so often and at a phase's end."""
        if not (self._phase_step.is_last or _is_due(number, self._plan.reporting.eval_steps)):
            return
        found = self._evaluate(EVALUATE)
        if found:
            line = {"step": number, "phase": self._phase_step.phase.name, "evaluate": found}
            self._progress.metrics.append(line)
            self._tracked({"step": number, **{f"evaluate_{name}": value
                                              for name, value in found.items()}})
            yield line

    def _retained(self, when: str) -> Iterator[dict[str, Any]]:
        """Evaluate on the corpus to retain, before the first step and after the last."""
        if when in self._progress.retained:
            return
        found = self._evaluate(RETAIN)
        if found:
            self._progress.retained[when] = found
            yield {"step": self._progress.step, "retain": when, **found}

    def _evaluate(self, name: str) -> dict[str, Any] | None:
        """Evaluate on an auxiliary corpus, if there is one."""
        if name not in self.datasets.auxiliary:
            return None
        fitted = [size for size in self.micro_batch_sizes.values()
                  if size and self._plan.optimization.memory_gib]
        evaluation = EvaluationSet(
            self.datasets.auxiliary[name], SpecialTokens.of(self._initial.tokenizer),
            self.datasets.strategies["words"], longest_sequence(self.schedule.phases),
            min([EvaluationSet.batch_size, *fitted]))
        with self._objective.switched(HELD_OUT):
            return evaluation.score(self._objective, self.accelerator)

    def _save(self, number: int) -> None:
        """Write checkpoints and states that are due after a step."""
        reporting, phase_step = self._plan.reporting, self._phase_step
        if phase_step.is_last and len(self.schedule.phases) > 1:
            self._checkpointer.keep(f"phase-{phase_step.phase_number + 1}-{phase_step.phase.name}")
        if _is_due(number, reporting.keep_steps):
            self._checkpointer.keep(f"step-{number:08d}")
        if _is_due(number, reporting.save_steps) and number != self.schedule.steps:
            self._checkpointer.save()

    def _must_end(self, step: StepResult) -> bool:
        """Save and end after a stop request or a spent budget, unless the run ends anyway."""
        if self._budget.is_spent():
            self.trainer.request_stop()
        if not step.stop or step.number == self.schedule.steps:
            return False
        self._checkpointer.save()
        return True

    def _finish(self) -> dict[str, Any]:
        """Write the final checkpoint and describe it."""
        self._note_time()
        written = self._checkpointer.finish()
        return describe(str(self._plan.output), written) if written else {}


def describe(output: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a finished checkpoint by its manifest's results."""
    return {"checkpoint": output, **manifest["results"],
            "tokens_seen": manifest["tokens_seen"], "wall_seconds": manifest["wall_seconds"]}


def _is_due(number: int, every: int) -> bool:
    return bool(every) and number % every == 0
