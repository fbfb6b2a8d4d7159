"""A training run from text to a checkpoint: reported, killable and resumable."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import nn

from bmtools.errors import BmtoolsError
from bmtools.io.aside import new_directory
from bmtools.io.manifest import Manifest
from bmtools.io.streams import encode_line
from bmtools.models.checkpoint import fill_checkpoint, load_masked_lm
from bmtools.models.packed import prepare_packed, self_check
from bmtools.training.anchor import Pull, load_anchors, save_anchors, take_anchors
from bmtools.training.batches import Maker, RowBatches, Words
from bmtools.training.corpora import Texts
from bmtools.training.depth import freeze, frozen_names, layer_rates, thaw
from bmtools.training.evaluation import HeldOut
from bmtools.training.lengths import measure
from bmtools.training.loop import Course, Extras, Step, Trainer
from bmtools.training.mixout import Mixout
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.phases import check_corpora, to_toml
from bmtools.training.plan import EVALUATE, REPLAY, RETAIN, Plan
from bmtools.training.replay import Replay
from bmtools.training.reports import Reporter, Speed, Watch, speed_of
from bmtools.training.start import Start
from bmtools.training.state import (
    Progress,
    kept_directory,
    latest_state,
    read_progress,
    restore,
    runs_directory,
    save_state,
)
from bmtools.training.stopping import Budget, stops_on_signals
from bmtools.training.stream import Stream
from bmtools.training.timeline import Stage

METRICS = "metrics.jsonl"
PHASES = "phases.toml"
_ANCHORS = "start.safetensors"

MakeObjective = Callable[[Any, frozenset[str]], PhasedObjective]


def execute(plan: Plan, texts: Texts, start: Start, accelerator: Accelerator,
            make_objective: MakeObjective) -> Iterator[dict[str, Any]]:
    """Train and write the checkpoint; yield a line of metrics per report, then the manifest.

    Only the first of several processes yields.

    Args:
        plan: the run as asked for.
        texts: what is trained on, replayed and evaluated.
        start: the model and its vocabulary.
        accelerator: made by `start_processes`.
        make_objective: gives the losses around a model for the tasks of all phases.
    """
    run = _Run(plan, texts, start, accelerator, make_objective)
    with stops_on_signals(run.request_stop):
        for line in run.lines():
            if accelerator.is_main_process:
                yield line
    accelerator.end_training()


class _Run:
    """One sitting of a run."""

    def __init__(self, plan: Plan, texts: Texts, start: Start, accelerator: Accelerator,
                 make_objective: MakeObjective) -> None:
        self._begun = time.monotonic()
        self._plan = plan
        self._texts = texts
        self._start = start
        self._accelerator = accelerator
        self._budget = Budget(plan.run.budget_seconds() or 0)
        self._directory = runs_directory(plan.output)
        _check_corpora(plan, texts)
        self._packed = is_packed(plan, accelerator)
        self._timeline = measure(plan.script.phases, texts.trained, self._packed)
        self._progress, self._state = self._find_state()
        self._spent = self._progress.wall_seconds
        self._trainer = self._make_trainer(make_objective)
        self._frozen: list[nn.Parameter] = []
        self._batches = self._make_batches()
        self._replay = self._make_replay()

    def request_stop(self) -> None:
        """Stop after this step, with a state to resume from."""
        self._trainer.request_stop()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Train, report and keep; the last line describes the checkpoint, if it was reached."""
        watch = Watch()
        stage = self._timeline.stage(self._progress.step)
        self._enter(stage)
        yield from self._retained("before")
        self._note_time()
        self._reporter = Reporter(self._progress, self._plan.run.report_every,
                                  self._timeline.steps, self._speed())
        for step in self._trainer.run(self._batches, self._progress.step):
            line = self._account(step, stage)
            if line:
                yield line
            watch.look(step, stage, self._way_back())
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

    def _find_state(self) -> tuple[Progress, Path | None]:
        """Find where an earlier sitting ended, or clear what it left."""
        identity = self._plan.identity(self._texts.hashes, self._start.vocabulary)
        state = latest_state(self._directory) if self._plan.resume else None
        if state:
            return read_progress(state, identity), state
        if self._accelerator.is_main_process:
            for old in (*self._directory.glob("step-*"), kept_directory(self._plan.output)):
                shutil.rmtree(old, ignore_errors=True)
        return Progress(identity), None

    def _make_trainer(self, make_objective: MakeObjective) -> Trainer:
        plan = self._plan
        model = load_masked_lm(self._state).model if self._state else self._start.make()
        if self._packed:
            prepare_packed(model)
        tasks = frozenset(phase.task.objective for phase in plan.script.phases)
        objective = make_objective(model, tasks)
        rates = layer_rates(model, plan.forgetting.layer_decay)
        adjust, around = self._holding(model)
        trainer = Trainer(
            objective, Course(self._timeline.steps, self._learning_rate), plan.loop,
            self._accelerator, Extras(rates, adjust, around))
        if self._state:
            restore(self._state, trainer.objective, trainer.optimizer)
        return trainer

    def _learning_rate(self, number: int) -> float:
        return self._timeline.stage(number).learning_rate

    def _holding(self, model: Any) -> tuple[
            Callable[[float], None] | None, Callable[[int], AbstractContextManager[None]] | None]:
        """Make what holds a model to the weights of its start; these lie beside the states."""
        settings = self._plan.forgetting
        if not settings.needs_start:
            return None, None
        model.to(self._accelerator.device)
        path = self._directory / _ANCHORS
        if self._state:
            anchors = load_anchors(path, model)
        else:
            anchors = take_anchors(model)
            if self._accelerator.is_main_process:
                save_anchors(path, anchors)
        pull = Pull(model, anchors, settings.l2_start) if settings.l2_start else None
        mixout = Mixout(model, anchors, settings.mixout, self._plan.loop.seed) \
            if settings.mixout else None
        return pull and pull.add_gradients, mixout and mixout.mixed

    def _maker(self, corpora: Mapping[str, Any]) -> Maker:
        return Maker(list(corpora.values()), Words.of(self._start.tokenizer), self._packed,
                     self._plan.loop.seed, self._texts.strategies)

    def _make_batches(self) -> RowBatches:
        stream = Stream(self._texts.trained, self._timeline, self._packed, self._plan.loop.seed)
        return RowBatches(stream, self._timeline, self._maker(self._texts.trained),
                          self._plan.loop.micro_batch)

    def _make_replay(self) -> Replay | None:
        if REPLAY not in self._texts.others or not self._plan.replay.replay_every:
            return None
        corpus = self._texts.others[REPLAY]
        return Replay(self._plan.replay.replay_every, corpus, self._timeline,
                      self._maker({REPLAY: corpus}), self._packed, self._plan.loop.seed,
                      self._plan.loop.micro_batch)

    def _speed(self) -> Speed:
        return speed_of(self._trainer.objective.model.config, self._timeline,
                        self._texts.trained, self._plan.loop, self._accelerator)

    def _enter(self, stage: Stage) -> None:
        """Begin a phase: its task, what it freezes, and proof that packed documents keep apart."""
        objective = self._trainer.objective
        objective.switch(stage.phase.task.objective)
        thaw(self._frozen)
        settings = stage.phase.freeze
        names = frozen_names(objective.model, settings.frozen_layers, settings.patterns())
        if self._packed:
            self._check_packing(stage)
        self._frozen = freeze(objective.model, names)

    def _check_packing(self, stage: Stage) -> None:
        example = self._batches.example(self._progress.step)
        device = self._accelerator.device
        types = example.get("token_types")
        with self._accelerator.autocast():
            self_check(self._trainer.objective.model, example["ids"].to(device),
                       example["lengths"], types if types is None else types.to(device),
                       causal=stage.phase.task.objective == "causal")

    def _account(self, step: Step, stage: Stage) -> dict[str, Any] | None:
        replayed = self._replay.after(step, self._trainer) if self._replay else None
        self._note_time()
        line = self._reporter.account(step, stage, replayed)
        if line and self._plan.run.trackers:
            numbers = {name: value for name, value in line.items() if not isinstance(value, str)}
            self._accelerator.log(numbers, step=step.number)
        return line

    def _note_time(self) -> None:
        self._progress.wall_seconds = self._spent + time.monotonic() - self._begun

    def _kept(self, step: Step, stage: Stage) -> Iterator[dict[str, Any]]:
        """Evaluate, save and keep what is due after a step."""
        run = self._plan.run
        final = step.number == self._timeline.steps
        if stage.is_last or _is_due(step.number, run.evaluate_every):
            yield from self._evaluated(step, stage)
        if stage.is_last and len(self._timeline.phases) > 1:
            self._keep(f"phase-{stage.number + 1}-{stage.phase.name}")
        if _is_due(step.number, run.keep_every):
            self._keep(f"step-{step.number:08d}")
        if _is_due(step.number, run.save_every) and not final:
            self._save()

    def _evaluated(self, step: Step, stage: Stage) -> Iterator[dict[str, Any]]:
        found = self._score(EVALUATE)
        if found:
            line = {"step": step.number, "phase": stage.phase.name, "evaluate": found}
            self._progress.metrics.append(line)
            yield line

    def _retained(self, when: str) -> Iterator[dict[str, Any]]:
        """Score the text that must not be forgotten, before the first step and after the last."""
        if when not in self._progress.retained:
            found = self._score(RETAIN)
            if found:
                self._progress.retained[when] = found
                yield {"step": self._progress.step, "retain": when, **found}

    def _score(self, name: str) -> dict[str, Any] | None:
        corpus = self._texts.others.get(name)
        if corpus is None:
            return None
        longest = max(phase.rows.row_tokens for phase in self._timeline)
        held_out = HeldOut(corpus, Words.of(self._start.tokenizer),
                           self._texts.strategies["words"], longest)
        return held_out.score(MaskedObjective(self._trainer.objective.model), self._accelerator)

    def _save(self) -> None:
        if self._accelerator.is_main_process:
            save_state(self._directory, self._progress, self._trainer.objective,
                       self._trainer.optimizer, self._start.tokenizer, self._manifest(),
                       self._plan.run.states)

    def _keep(self, name: str) -> None:
        """Write a checkpoint that stays, beside the output."""
        if self._accelerator.is_main_process:
            path = kept_directory(self._plan.output) / name
            with new_directory(path, overwrite=True) as partial:
                self._fill(partial)

    def _must_end(self, step: Step) -> bool:
        """Save and end where a signal asked for it or the time is over, but not after the end."""
        if self._budget.is_spent():
            self._trainer.request_stop()
        if not step.stop or step.number == self._timeline.steps:
            return False
        self._save()
        return True

    def _left(self) -> dict[str, Any]:
        return {"stopped": self._progress.step, "of": self._timeline.steps,
                "state": str(self._directory), "wall_seconds": round(
                    self._progress.wall_seconds, 3)}

    def _way_back(self) -> str:
        state = latest_state(self._directory)
        return f"the last good state is {state}" if state else \
            "no state was saved yet; --save-every says how often one is"

    def _finish(self) -> dict[str, Any]:
        """Write the checkpoint and describe it."""
        plan = self._plan
        if self._accelerator.is_main_process:
            with new_directory(plan.output, plan.overwrite) as partial:
                written = self._fill(partial)
            shutil.rmtree(self._directory, ignore_errors=True)
        self._accelerator.wait_for_everyone()
        if not self._accelerator.is_main_process:
            return {}
        return {"checkpoint": str(plan.output), **written["results"],
                "tokens_seen": written["tokens_seen"], "wall_seconds": written["wall_seconds"]}

    def _fill(self, partial: Path) -> dict[str, Any]:
        written = fill_checkpoint(partial, self._trainer.objective.model, self._start.tokenizer,
                                  self._manifest())
        (partial / METRICS).write_bytes(b"".join(map(encode_line, self._progress.metrics)))
        (partial / PHASES).write_text(to_toml(self._plan.script), encoding="utf-8")
        return written

    def _manifest(self) -> Manifest:
        plan, progress = self._plan, self._progress
        results: dict[str, Any] = {
            "steps": self._timeline.steps, "layout": "packed" if self._packed else "padded",
            "corpora": {name: {"documents": len(corpus), "tokens": corpus.tokens}
                        for name, corpus in self._texts.trained.items()},
            "last": progress.metrics[-1] if progress.metrics else {}}
        if progress.retained:
            results["retained"] = {**progress.retained, **_cost(progress.retained)}
        return Manifest(plan.command, plan.settings(), self._start.vocabulary, plan.loop.seed,
                        self._texts.hashes, plan.parents, progress.tokens_seen,
                        progress.wall_seconds, results)


def _check_corpora(plan: Plan, texts: Texts) -> None:
    try:
        check_corpora(plan.script.phases, tuple(texts.trained))
    except ValueError as error:
        raise BmtoolsError(f"{error}; --corpus NAME=PATH gives a text its name") from None


def _is_due(number: int, every: int) -> bool:
    return bool(every) and number % every == 0


def _cost(retained: Mapping[str, Any]) -> dict[str, float]:
    """How much worse the retained text is predicted, in nats per hidden token."""
    if len(retained) < 2:
        return {}
    return {"cost": round(retained["after"]["loss"] - retained["before"]["loss"], 6)}


def is_packed(plan: Plan, accelerator: Accelerator) -> bool:
    """Tell whether documents share rows.

    Raises:
        BmtoolsError: phases that disagree on it.
    """
    layouts = {phase.rows.layout for phase in plan.script.phases}
    if len(layouts) > 1:
        raise BmtoolsError(f"layout: found {' and '.join(sorted(layouts))}, expected one for all "
                           "phases")
    layout = layouts.pop()
    return layout == "packed" or (layout == "auto" and accelerator.device.type == "cuda")
