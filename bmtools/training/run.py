"""A training run from text to a checkpoint: reported, killable and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from accelerate import Accelerator
from torch import nn

from bmtools.data.batches import Collator, ScheduledBatches, SpecialTokens
from bmtools.data.phase_lengths import check_mixture_limits, resolve_steps
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError, Reject
from bmtools.models.checkpoint import load_masked_lm
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.schedule import PhaseStep
from bmtools.training.checkpoints import Checkpointer, find_resume_point, manifest_of
from bmtools.training.datasets import DataConfig, Datasets, open_datasets
from bmtools.training.distributed import make_accelerator
from bmtools.training.evaluation import EvaluationSet, Evaluator
from bmtools.training.layers import freeze, frozen_names, thaw
from bmtools.training.loop import (
    DivergedError,
    LoopPlan,
    StepResult,
    TimeBudget,
    Trainer,
    stops_on_signals,
)
from bmtools.training.metrics import DivergenceMonitor, Reporter, Speed, speed_of
from bmtools.training.microbatch import check_memory, fit_micro_batches
from bmtools.training.model_init import InitialModel, check_fits
from bmtools.training.objectives import PhasedObjective
from bmtools.training.packing_check import is_packed, prepare_checked, prepare_fast, row_widths
from bmtools.training.plan import EVALUATE, REPLAY, RETAIN, TrainingPlan, check_before
from bmtools.training.regularization import make_hooks
from bmtools.training.replay import Replay
from bmtools.training.resume import restore_extras, restore_memory
from bmtools.training.run_directories import logs_directory, runs_directory, tidied
from bmtools.training.sharding import is_sharded
from bmtools.training.trackers import named_trackers, start_trackers, track

MakeObjective = Callable[[Any, Accelerator], PhasedObjective]


def train(plan: TrainingPlan, start: InitialModel, wanted: DataConfig, reject: Reject,
          make_objective: MakeObjective) -> Iterator[dict[str, Any]]:
    """Train and write the checkpoint; yield a line of metrics per report, then a description.

    A sitting that is told to stop ends with a line that has the key `stopped`. Lines with the key
    `note` are for people. Only the first of several processes yields.

    Args:
        plan: the run as asked for.
        start: the model and its vocabulary.
        wanted: the texts.
        reject: receives bad records.
        make_objective: gives the losses around a model for the tasks of all phases, and for
            `HELD_OUT` text.

    Raises:
        BmtoolsError: something asked for does not fit the model, the texts, the processes or
            memory, another run lies there, or the loss left for good.
    """
    with prepare_run(plan, start, wanted, reject, make_objective) as run, \
            stops_on_signals(run.request_stop):
        for line in run.lines():
            if run.accelerator.is_main_process:
                yield line
    run.accelerator.end_training()


@contextmanager
def prepare_run(plan: TrainingPlan, start: InitialModel, wanted: DataConfig, reject: Reject,
                make_objective: MakeObjective, processes: int = 0) -> Iterator[Run]:
    """Make a run ready for its first step; arguments and errors as for `train`.

    Args:
        processes: that will share the work; 0 for those that there are.
    """
    phases = plan.config.phases
    check_fits(start, phases)
    changing = len({phase.objective.objective for phase in phases}) > 1
    accelerator = make_accelerator(plan.optimization, named_trackers(plan.reporting.trackers),
                                   changing or any(phase.freezes for phase in phases),
                                   logs_directory(plan.output))
    processes = processes or accelerator.num_processes
    sharded = is_sharded(accelerator)
    check_before(plan, wanted.trained, processes, sharded)
    check_memory(plan, start.config, processes, sharded)
    with tidied(plan.output, accelerator.is_main_process):
        texts = open_datasets(plan, wanted, start, reject, accelerator)
        yield Run(plan, texts, start, accelerator, make_objective, processes)


class Run:
    """One sitting of a run.

    Args:
        plan: the run as asked for.
        texts: what it reads.
        start: the model and its vocabulary.
        accelerator: made by `make_accelerator`.
        make_objective: gives the losses around a model.
        processes: that will share the work.
    """

    def __init__(self, plan: TrainingPlan, texts: Datasets, start: InitialModel,
                 accelerator: Accelerator,
                 make_objective: MakeObjective, processes: int) -> None:
        self._plan = plan
        self.datasets = texts
        self._start = start
        self.accelerator = accelerator
        self.packed = is_packed(plan, accelerator)
        self.schedule = resolve_steps(plan.config.phases, texts.trained, self.packed)
        check_mixture_limits(self.schedule, texts.trained, self.packed)
        self._place = find_resume_point(plan, plan.identity(texts.contents(), start.vocabulary),
                                        accelerator.is_main_process)
        self._progress = self._place.progress
        self._spent = self._progress.wall_seconds
        self._budget = TimeBudget(plan.began, plan.reporting.budget_seconds())
        self.trainer = self._make_trainer(make_objective)
        self.micro_batch_sizes = fit_micro_batches(plan, self.trainer, self.packed, processes)
        self.frozen = self._names_held()
        self._frozen: list[nn.Parameter] = []
        self._keeper = Checkpointer(plan, start.tokenizer, self.trainer, self._progress, partial(
            manifest_of, plan, texts, start.vocabulary, self.schedule, self.packed,
            self._progress))
        fitted = [size for size in self.micro_batch_sizes.values()
                  if size and plan.optimization.memory_gib]
        self._examiner = Evaluator(
            self.trainer.objective, SpecialTokens.of(start.tokenizer), texts.strategies["words"],
            longest_sequence(self.schedule), accelerator, min([EvaluationSet.batch_rows, *fitted]))
        self._batches = self.make_batches(
            Sampler(texts.trained, self.schedule, self.packed, plan.optimization.seed),
            texts.trained)
        self._replay = self._make_replay()

    def request_stop(self) -> None:
        """Stop after this step, with a state to resume from."""
        self.trainer.request_stop()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Train, report and keep; the last line describes the checkpoint, if it was reached."""
        yield from ({"note": note} for note in self._place.notes)
        if self._plan.reporting.trackers:
            start_trackers(self.accelerator, self._plan.command, self._plan.settings(),
                           self._progress.step)
        stage = self.schedule.phase_step(self._progress.step)
        self.enter(stage)
        yield from self._retained("before")
        self._note_time()
        self._reporter = Reporter(
            self._progress, self._plan.reporting.logging_steps, self.schedule.steps, self.speed())
        watch = DivergenceMonitor()
        for step in self._steps():
            yield from self._account(step, stage)
            watch.look(step, stage, self._keeper.way_back)
            yield from self._kept(step, stage)
            if self._must_end(step):
                yield self._left()
                return
            following = self.schedule.phase_step(step.number)
            if following.phase_number != stage.phase_number:
                self.enter(following)
            stage = following
        yield from self._retained("after")
        yield self._finish()

    def speed(self) -> Speed:
        """Work out what a token costs in each phase."""
        return speed_of(self._start.config, self.schedule, self.datasets.trained,
                        self._plan.optimization, self.accelerator)

    def _steps(self) -> Iterator[StepResult]:
        """Train; where a loss is no number, say what to go back to."""
        try:
            for step in self.trainer.run(self._batches, self._progress.step):
                self._replayed = self._replay.after(step, self.trainer) if self._replay else None
                yield step
        except DivergedError as error:
            raise BmtoolsError(f"{error}; {self._keeper.way_back()}") from error

    def _make_trainer(self, make_objective: MakeObjective) -> Trainer:
        plan, state = self._plan, self._place.state
        model = load_masked_lm(state).model if state else self._start.make()
        prepare_fast(model, self.accelerator)
        if self.packed:
            prepare_checked(model, self.schedule, self.datasets.trained,
                            self._collator(self.datasets.trained), plan.optimization.seed,
                            self.accelerator)
        objective = make_objective(model, self.accelerator)
        if state:
            restore_extras(state, objective)
        trainer = Trainer(
            objective, LoopPlan(self.schedule.steps, self._learning_rate), plan.optimization,
            self.accelerator, make_hooks(plan, model, state, self.accelerator))
        if state:
            restore_memory(state, trainer.objective, trainer.optimizer)
            if self.accelerator.scaler and self._progress.scaler:
                self.accelerator.scaler.load_state_dict(self._progress.scaler)
        return trainer

    def _learning_rate(self, number: int) -> float:
        return self.schedule.phase_step(number).learning_rate

    def _names_held(self) -> list[set[str]]:
        """Name the weights that each phase freezes; what matches none is found before training."""
        return [frozen_names(self.trainer.objective.model, phase.freeze.frozen_layers,
                             phase.freeze.patterns()) for phase in self.schedule]

    def _collator(self, corpora: Mapping[str, Corpus]) -> Collator:
        return Collator(list(corpora.values()), SpecialTokens.of(self._start.tokenizer),
                        self.packed,
                        self._plan.optimization.seed, self.datasets.strategies,
                        row_widths(self.schedule, self.accelerator))

    def make_batches(self, sampler: Sampler, corpora: Mapping[str, Corpus]) -> ScheduledBatches:
        """Make the batches of a sampler of these corpora, in micro-batches that fit each phase."""
        return ScheduledBatches(sampler, self._collator(corpora), self.micro_batch_sizes)

    def _make_replay(self) -> Replay | None:
        every = self._plan.replay.replay_steps
        if REPLAY not in self.datasets.others or not every:
            return None
        corpora = {REPLAY: self.datasets.others[REPLAY]}
        return Replay(every, corpora, self.schedule, self.packed, self._plan.optimization.seed,
                      self.make_batches)

    def enter(self, stage: PhaseStep) -> None:
        """Begin a phase: its task, and what it freezes."""
        objective = self.trainer.objective
        assert isinstance(objective, PhasedObjective)
        objective.switch(stage.phase.objective.objective)
        thaw(self._frozen)
        self._frozen = freeze(objective.model, self.frozen[stage.phase_number])

    def _account(self, step: StepResult, stage: PhaseStep) -> Iterator[dict[str, Any]]:
        self._note_time()
        line = self._reporter.account(step, stage, self._replayed)
        if line:
            if self._plan.reporting.trackers:
                track(self.accelerator, line)
            yield line

    def _note_time(self) -> None:
        self._progress.wall_seconds = self._spent + time.monotonic() - self._plan.began

    def _kept(self, step: StepResult, stage: PhaseStep) -> Iterator[dict[str, Any]]:
        """Evaluate, save and keep what is due after a step."""
        run = self._plan.reporting
        final = step.number == self.schedule.steps
        if stage.is_last or _is_due(step.number, run.eval_steps):
            yield from self._evaluated(step, stage)
        if stage.is_last and len(self.schedule.phases) > 1:
            self._keeper.keep(f"phase-{stage.phase_number + 1}-{stage.phase.name}")
        if _is_due(step.number, run.keep_steps):
            self._keeper.keep(f"step-{step.number:08d}")
        if _is_due(step.number, run.save_steps) and not final:
            self._keeper.save()

    def _evaluated(self, step: StepResult, stage: PhaseStep) -> Iterator[dict[str, Any]]:
        found = self._examiner.score(self.datasets.others.get(EVALUATE),
                                     stage.phase.objective.objective)
        if found:
            line = {"step": step.number, "phase": stage.phase.name, "evaluate": found}
            self._progress.metrics.append(line)
            if self._plan.reporting.trackers:
                track(self.accelerator, {"step": step.number, **{
                    f"evaluate_{name}": value for name, value in found.items()}})
            yield line

    def _retained(self, when: str) -> Iterator[dict[str, Any]]:
        """Score the text that must not be forgotten, before the first step and after the last."""
        if when in self._progress.retained:
            return
        stage = self.schedule.phase_step(self._progress.step)
        found = self._examiner.score(self.datasets.others.get(RETAIN),
                                     stage.phase.objective.objective)
        if found:
            self._progress.retained[when] = found
            yield {"step": self._progress.step, "retain": when, **found}

    def _must_end(self, step: StepResult) -> bool:
        """Save and end where a signal asked for it or the time is over, but not after the end."""
        if self._budget.is_spent():
            self.trainer.request_stop()
        if not step.stop or step.number == self.schedule.steps:
            return False
        self._keeper.save()
        return True

    def _left(self) -> dict[str, Any]:
        return {"stopped": self._progress.step, "of": self.schedule.steps,
                "state": str(runs_directory(self._plan.output)),
                "wall_seconds": round(self._progress.wall_seconds, 3)}

    def _finish(self) -> dict[str, Any]:
        """Write the checkpoint and describe it."""
        self._note_time()
        written = self._keeper.finish()
        if not written:
            return {}
        return {"checkpoint": str(self._plan.output), **written["results"],
                "tokens_seen": written["tokens_seen"], "wall_seconds": written["wall_seconds"]}


def _is_due(number: int, every: int) -> bool:
    return bool(every) and number % every == 0
