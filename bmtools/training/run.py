"""A training run from text to a checkpoint: reported, killable and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from accelerate import Accelerator
from torch import nn

from bmtools.errors import BmtoolsError, Reject
from bmtools.models.checkpoint import load_masked_lm
from bmtools.training.batches import Maker, Words
from bmtools.training.caps import check_caps
from bmtools.training.corpora import Texts, Wanted, open_texts
from bmtools.training.depth import freeze, frozen_names, layer_rates, thaw
from bmtools.training.evaluation import Examiner
from bmtools.training.fitting import PhaseBatches, fit_passes
from bmtools.training.holding import make_holding
from bmtools.training.keeping import Keeper, find_place, manifest_of
from bmtools.training.lengths import measure
from bmtools.training.loop import Course, Diverged, Extras, Step, Trainer
from bmtools.training.objectives import PhasedObjective
from bmtools.training.packing import is_packed, prepare_checked
from bmtools.training.places import logs_directory, runs_directory, tidied
from bmtools.training.plan import EVALUATE, REPLAY, RETAIN, Plan, check_before
from bmtools.training.processes import start_processes
from bmtools.training.replay import Replay
from bmtools.training.reports import Reporter, Watch, speed_of
from bmtools.training.sharding import is_sharded
from bmtools.training.start import Start, check_fits
from bmtools.training.state import restore_extras, restore_memory
from bmtools.training.stopping import Budget, stops_on_signals
from bmtools.training.stream import Stream
from bmtools.training.timeline import Stage, Timeline
from bmtools.training.trackers import named_trackers, start_trackers, track

MakeObjective = Callable[[Any, Accelerator], PhasedObjective]


def execute(plan: Plan, start: Start, wanted: Wanted, reject: Reject,
            make_objective: MakeObjective, beside_bytes: int = 0) -> Iterator[dict[str, Any]]:
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
        beside_bytes: memory that something else than training takes, such as a teacher.

    Raises:
        BmtoolsError: something asked for does not fit the model, the texts or the processes,
            another run lies there, or the loss left for good.
    """
    phases = plan.script.phases
    check_fits(start, phases)
    changing = len({phase.task.objective for phase in phases}) > 1
    accelerator = start_processes(plan.loop, named_trackers(plan.run.trackers),
                                  changing or any(phase.freezes for phase in phases),
                                  logs_directory(plan.output))
    check_before(plan, wanted.trained, accelerator.num_processes, is_sharded(accelerator))
    passes = fit_passes(plan, start.config, accelerator.num_processes, beside_bytes)
    with tidied(plan.output, accelerator.is_main_process):
        texts = open_texts(plan, wanted, start, reject, accelerator)
        run = _Run(plan, texts, start, accelerator, passes, make_objective)
        with stops_on_signals(run.request_stop):
            for line in run.lines():
                if accelerator.is_main_process:
                    yield line
    accelerator.end_training()


class _Run:
    """One sitting of a run."""

    def __init__(self, plan: Plan, texts: Texts, start: Start, accelerator: Accelerator,
                 passes: Mapping[str, int], make_objective: MakeObjective) -> None:
        self._plan = plan
        self._texts = texts
        self._start = start
        self._accelerator = accelerator
        self._passes = passes
        self._packed = is_packed(plan, accelerator)
        self._timeline = measure(plan.script.phases, texts.trained, self._packed)
        check_caps(self._timeline, texts.trained, self._packed)
        self._place = find_place(plan, plan.identity(texts.contents(), start.vocabulary),
                                 accelerator.is_main_process)
        self._progress = self._place.progress
        self._spent = self._progress.wall_seconds
        self._budget = Budget(plan.began, plan.run.budget_seconds())
        self._trainer = self._make_trainer(make_objective)
        self._held = self._names_held()
        self._frozen: list[nn.Parameter] = []
        self._keeper = Keeper(plan, start.tokenizer, self._trainer, self._progress, partial(
            manifest_of, plan, texts, start.vocabulary, self._timeline, self._packed,
            self._progress))
        self._examiner = Examiner(
            self._trainer.objective, Words.of(start.tokenizer), texts.strategies["words"],
            max(phase.rows.row_tokens for phase in self._timeline), accelerator)
        self._batches = self._make_batches(
            Stream(texts.trained, self._timeline, self._packed, plan.loop.seed),
            self._timeline, texts.trained)
        self._replay = self._make_replay()

    def request_stop(self) -> None:
        """Stop after this step, with a state to resume from."""
        self._trainer.request_stop()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Train, report and keep; the last line describes the checkpoint, if it was reached."""
        yield from ({"note": note} for note in self._place.notes)
        if self._plan.run.trackers:
            start_trackers(self._accelerator, self._plan.command, self._plan.settings(),
                           self._progress.step)
        stage = self._timeline.stage(self._progress.step)
        self._enter(stage)
        yield from self._retained("before")
        self._note_time()
        self._reporter = Reporter(
            self._progress, self._plan.run.report_every, self._timeline.steps,
            speed_of(self._start.config, self._timeline, self._texts.trained, self._plan.loop,
                     self._accelerator))
        watch = Watch()
        for step in self._steps():
            yield from self._account(step, stage)
            watch.look(step, stage, self._keeper.way_back)
            yield from self._kept(step, stage)
            if self._must_end(step):
                yield self._left()
                return
            following = self._timeline.stage(step.number)
            if following.number != stage.number:
                self._enter(following)
            stage = following
        yield from self._retained("after")
        yield self._finish()

    def _steps(self) -> Iterator[Step]:
        """Train; where a loss is no number, say what to go back to."""
        try:
            for step in self._trainer.run(self._batches, self._progress.step):
                self._replayed = self._replay.after(step, self._trainer) if self._replay else None
                yield step
        except Diverged as error:
            raise BmtoolsError(f"{error}; {self._keeper.way_back()}") from error

    def _make_trainer(self, make_objective: MakeObjective) -> Trainer:
        plan, state = self._plan, self._place.state
        model = load_masked_lm(state).model if state else self._start.make()
        if self._packed:
            prepare_checked(model, self._timeline, self._texts.trained,
                            self._maker(self._texts.trained), plan.loop.seed, self._accelerator)
        objective = make_objective(model, self._accelerator)
        if state:
            restore_extras(state, objective)
        rates = layer_rates(model, plan.forgetting.layer_decay)
        trainer = Trainer(
            objective, Course(self._timeline.steps, self._learning_rate), plan.loop,
            self._accelerator, Extras(rates, *make_holding(plan, model, state, self._accelerator)))
        if state:
            restore_memory(state, trainer.objective, trainer.optimizer)
            if self._accelerator.scaler and self._progress.scaler:
                self._accelerator.scaler.load_state_dict(self._progress.scaler)
        return trainer

    def _learning_rate(self, number: int) -> float:
        return self._timeline.stage(number).learning_rate

    def _names_held(self) -> list[set[str]]:
        """Name the weights that each phase freezes; what matches none is found before training."""
        return [frozen_names(self._trainer.objective.model, phase.freeze.frozen_layers,
                             phase.freeze.patterns()) for phase in self._timeline]

    def _maker(self, corpora: Mapping[str, Any]) -> Maker:
        return Maker(list(corpora.values()), Words.of(self._start.tokenizer), self._packed,
                     self._plan.loop.seed, self._texts.strategies)

    def _make_batches(self, stream: Stream, timeline: Timeline,
                      corpora: Mapping[str, Any]) -> PhaseBatches:
        return PhaseBatches(stream, timeline, self._maker(corpora), self._passes)

    def _make_replay(self) -> Replay | None:
        every = self._plan.replay.replay_every
        if REPLAY not in self._texts.others or not every:
            return None
        corpora = {REPLAY: self._texts.others[REPLAY]}
        return Replay(every, corpora, self._timeline, self._packed, self._plan.loop.seed,
                      self._make_batches)

    def _enter(self, stage: Stage) -> None:
        """Begin a phase: its task, and what it freezes."""
        objective = self._trainer.objective
        assert isinstance(objective, PhasedObjective)
        objective.switch(stage.phase.task.objective)
        thaw(self._frozen)
        self._frozen = freeze(objective.model, self._held[stage.number])

    def _account(self, step: Step, stage: Stage) -> Iterator[dict[str, Any]]:
        self._note_time()
        line = self._reporter.account(step, stage, self._replayed)
        if line:
            if self._plan.run.trackers:
                track(self._accelerator, line)
            yield line

    def _note_time(self) -> None:
        self._progress.wall_seconds = self._spent + time.monotonic() - self._plan.began

    def _kept(self, step: Step, stage: Stage) -> Iterator[dict[str, Any]]:
        """Evaluate, save and keep what is due after a step."""
        run = self._plan.run
        final = step.number == self._timeline.steps
        if stage.is_last or _is_due(step.number, run.evaluate_every):
            yield from self._evaluated(step, stage)
        if stage.is_last and len(self._timeline.phases) > 1:
            self._keeper.keep(f"phase-{stage.number + 1}-{stage.phase.name}")
        if _is_due(step.number, run.keep_every):
            self._keeper.keep(f"step-{step.number:08d}")
        if _is_due(step.number, run.save_every) and not final:
            self._keeper.save()

    def _evaluated(self, step: Step, stage: Stage) -> Iterator[dict[str, Any]]:
        found = self._examiner.score(self._texts.others.get(EVALUATE), stage.phase.task.objective)
        if found:
            line = {"step": step.number, "phase": stage.phase.name, "evaluate": found}
            self._progress.metrics.append(line)
            if self._plan.run.trackers:
                track(self._accelerator, {"step": step.number, **{
                    f"evaluate_{name}": value for name, value in found.items()}})
            yield line

    def _retained(self, when: str) -> Iterator[dict[str, Any]]:
        """Score the text that must not be forgotten, before the first step and after the last."""
        if when in self._progress.retained:
            return
        stage = self._timeline.stage(self._progress.step)
        found = self._examiner.score(self._texts.others.get(RETAIN), stage.phase.task.objective)
        if found:
            self._progress.retained[when] = found
            yield {"step": self._progress.step, "retain": when, **found}

    def _must_end(self, step: Step) -> bool:
        """Save and end where a signal asked for it or the time is over, but not after the end."""
        if self._budget.is_spent():
            self._trainer.request_stop()
        if not step.stop or step.number == self._timeline.steps:
            return False
        self._keeper.save()
        return True

    def _left(self) -> dict[str, Any]:
        return {"stopped": self._progress.step, "of": self._timeline.steps,
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
