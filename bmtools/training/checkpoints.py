"""What a run writes: states to resume from, checkpoints on the way, and the one at its end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from bmtools.errors import CheckpointError
from bmtools.io.atomic import new_directory
from bmtools.io.jsonl import encode_line
from bmtools.io.manifest import Manifest
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.recipes.phases import to_toml
from bmtools.recipes.schedule import Schedule
from bmtools.training.datasets import Datasets
from bmtools.training.loop import Trainer
from bmtools.training.plan import TrainingPlan
from bmtools.training.resume import (
    Progress,
    damaged_states,
    flush_to_disk,
    latest_state,
    read_progress,
    save_state,
)
from bmtools.training.run_directories import STATES, kept_directory, runs_directory
from bmtools.training.sharding import plain_model

METRICS = "metrics.jsonl"
PHASES = "phases.toml"


@dataclass(frozen=True)
class ResumePoint:
    """Where a sitting begins.

    Args:
        progress: of the run so far.
        state: to go on from; None at the very beginning.
        notes: what people should know of it.
    """

    progress: Progress
    state: Path | None = None
    notes: tuple[str, ...] = ()


def find_resume_point(plan: TrainingPlan, identity: Mapping[str, Any], acts: bool) -> ResumePoint:
    """Find where an earlier sitting ended, or clear what it left.

    Args:
        plan: the run as asked for.
        identity: what makes it this run.
        acts: whether this process clears; one of several does.

    Raises:
        CheckpointError: another run, or no state that is whole.
    """
    directory = runs_directory(plan.output)
    state = latest_state(directory) if plan.resume else None
    damaged = damaged_states(directory) if plan.resume else []
    if damaged and not state:
        raise CheckpointError(f"{directory}: found no whole state ({damaged[0].name} is damaged); "
                              "start again with --overwrite")
    if state:
        progress = read_progress(state, identity)
        newer = [path for path in damaged if path.name > state.name]
        if acts:
            for path in newer:
                shutil.rmtree(path, ignore_errors=True)
        return ResumePoint(progress, state, tuple(
            f"{path} was damaged; the run goes on from {state.name}" for path in newer))
    if acts:
        for old in (*directory.glob(STATES), kept_directory(plan.output)):
            shutil.rmtree(old, ignore_errors=True)
    return ResumePoint(Progress(identity))


class Checkpointer:
    """Writes what a run keeps; every process calls, one writes.

    Args:
        plan: the run as asked for.
        tokenizer: of the model.
        trainer: holds weights and the optimizer's memory.
        progress: of the run.
        manifest: says what a checkpoint tells of itself, at this moment.
    """

    def __init__(self, plan: TrainingPlan, tokenizer: Any, trainer: Trainer, progress: Progress,
                 manifest: Callable[[], Manifest]) -> None:
        self._plan = plan
        self._tokenizer = tokenizer
        self._trainer = trainer
        self._progress = progress
        self._manifest = manifest
        self._accelerator: Accelerator = trainer.accelerator
        self._directory = runs_directory(plan.output)

    def save(self) -> None:
        """Write a state."""
        scaler = self._accelerator.scaler
        self._progress.scaler = scaler.state_dict() if scaler else {}
        save_state(self._directory, self._progress, self._trainer.objective,
                   self._trainer.optimizer, self._tokenizer, self._manifest(),
                   self._plan.reporting.save_total_limit, self._accelerator.is_main_process)

    def keep(self, name: str) -> None:
        """Write a checkpoint that stays, beside the output."""
        self._write(kept_directory(self._plan.output) / name, overwrite=True)

    def finish(self) -> dict[str, Any]:
        """Write the checkpoint of the run, drop its states, and tell what the manifest says."""
        written = self._write(self._plan.output, self._plan.overwrite)
        if self._accelerator.is_main_process:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._accelerator.wait_for_everyone()
        return written

    def way_back(self) -> str:
        """Say what to go on from after the run went wrong."""
        state = latest_state(self._directory)
        return f"the last good state is {state}" if state else \
            "no state was saved yet; --save-steps says how often one is"

    def _write(self, target: Path, overwrite: bool) -> dict[str, Any]:
        model = plain_model(self._trainer.objective.model, self._accelerator.is_main_process)
        if model is None:
            return {}
        with new_directory(target, overwrite) as partial:
            written = write_checkpoint_files(partial, model, self._tokenizer, self._manifest())
            lines = map(encode_line, self._progress.metrics)
            (partial / METRICS).write_bytes(b"".join(lines))
            (partial / PHASES).write_text(to_toml(self._plan.config), encoding="utf-8")
            flush_to_disk(partial)
        return written


def manifest_of(plan: TrainingPlan, texts: Datasets, vocabulary: str, timeline: Schedule,
                packed: bool,
                progress: Progress) -> Manifest:
    """Write down how a checkpoint came to be, at this moment of a run."""
    results: dict[str, Any] = {
        "steps": timeline.steps, "layout": "packed" if packed else "padded",
        "corpora": {name: {"documents": len(corpus), "tokens": corpus.tokens}
                    for name, corpus in texts.trained.items()}}
    for name, key in (("last", "loss"), ("evaluate", "evaluate")):
        lines = [line for line in progress.metrics if key in line]
        results |= {name: lines[-1]} if lines else {}
    if progress.retained:
        results["retained"] = {**progress.retained, **_cost(progress.retained)}
    return Manifest(plan.command, plan.settings(), vocabulary, plan.optimization.seed, texts.hashes,
                    plan.parents, progress.tokens_seen, progress.wall_seconds, results)


def _cost(retained: Mapping[str, Any]) -> dict[str, float]:
    """How much worse the retained text is predicted, in nats per hidden token."""
    if len(retained) < 2:
        return {}
    return {"cost": round(retained["after"]["loss"] - retained["before"]["loss"], 6)}
