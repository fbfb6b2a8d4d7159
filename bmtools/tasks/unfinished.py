"""Unfinished fine-tuning: finished work stored next to the output, to continue after a kill."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from accelerate import PartialState
from safetensors.torch import load_model, save_file, save_model
from torch import Tensor, nn

from bmtools.errors import start_again
from bmtools.io.directories import discard_run, new_directory
from bmtools.io.failures import reading
from bmtools.io.output import encode_lines, new_file
from bmtools.io.provenance.manifest import DirectoryHashes
from bmtools.io.unfinished import refuse_unfinished
from bmtools.models.model_files import WEIGHTS
from bmtools.records import JsonObject
from bmtools.tasks.settings import FinetunePlan
from bmtools.tasks.task import AnySplit, Evaluation
from bmtools.training.checkpoints import (
    OPTIMIZER,
    flush_to_disk,
    gather_shards,
    optimizer_tensors,
    require_same_run,
    restore_optimizer,
)
from bmtools.training.distributed import decide_by_main_process, require_shared
from bmtools.training.metrics import DivergedError
from bmtools.training.plan import PRECISION, STATE, lasting, runs_directory

if TYPE_CHECKING:
    from bmtools.training.loop import Trainer

SHARE_OF_SAVING = 0.05
"""Maximum share of training time that saving states may take."""
_WEIGHTS = "weights-"  # start of directory names, before the numbers of run and step


@dataclass
class Best:
    """The best evaluation of a seed; the highest `rank` is best.

    Args:
        seed: seed of the run.
        at: epoch and, with evaluations between epochs, step.
        rank: score, and a second value that decides between equal scores.
        dev: scores on the development set.
        weights: name of the directory with the model's weights; empty if no longer needed.
        tokens_seen: tokens seen in training up to this evaluation.
        decay: factor by which weight decay shrinks the embeddings that are not in the weights.
    """

    seed: int
    at: JsonObject
    rank: tuple[float, float]
    dev: Evaluation
    weights: str
    tokens_seen: int
    decay: float


@dataclass
class Run:
    """A seed's run: after an evaluation, or at its end.

    Args:
        line: line of the report, set at the end; it has the key `diverged` if the run diverged.
        best: the best evaluation; None before the first one, and for a run that diverged.
        key: key of the run.
        step: number of finished updates.
        evaluations: number of evaluations.
        since: number of the best evaluation.
        tokens_seen: tokens seen in training.
        decay: as in `Best`.
        weights: name of the directory with the state of model and optimizer.
        scaler: state of the loss scaler of fp16.
    """

    line: JsonObject = field(default_factory=dict)
    best: Best | None = None
    key: str = ""
    step: int = 0
    evaluations: int = 0
    since: int = 0
    tokens_seen: int = 0
    decay: float = 1.0
    weights: str = ""
    scaler: JsonObject = field(default_factory=dict)


@dataclass
class Progress:
    """Finished work of fine-tuning.

    Args:
        identity: settings and inputs that must not change when it is resumed, by name and part.
        finished: runs that have ended, by key.
        running: the run that has not ended.
        energy: energy used in all sessions.
        wall_seconds: duration of all sessions.
    """

    identity: dict[str, JsonObject] = field(default_factory=dict)
    finished: dict[str, Run] = field(default_factory=dict)
    running: Run | None = None
    energy: JsonObject = field(default_factory=dict)
    wall_seconds: float = 0.0


class Unfinished:
    """The directory of an unfinished fine-tuning, which the main process writes.

    Directories of weights are moved into place when complete. Then `state.json` names the ones in
    use, and the others are removed.

    Args:
        plan: plan of all runs.
        processes: processes that share the work.

    Attributes:
        progress: finished work.
        precision: precision with which a resumed run was started.
        part: part of the work; the name of a fold.
        began: when the first session would have begun without a break, by the monotonic clock.

    Raises:
        BmtoolsError: if there is an unfinished run and neither `resume` nor `overwrite` is set.
    """

    def __init__(self, plan: FinetunePlan, processes: PartialState) -> None:
        self._directory, self.processes = runs_directory(plan.output), processes
        self._step, self.part = plan.step, ""
        self.progress = decide_by_main_process(
            lambda: _read_progress(self._directory, plan.resume, plan.overwrite), processes)
        require_shared(self._directory, processes)
        self._step.resume_energy(self.progress.energy)
        self.precision = next((str(one[PRECISION]) for one in self.progress.identity.values()), "")
        self.began = time.monotonic() - self.progress.wall_seconds
        self._next_save = 0.0

    def require(self, plan: FinetunePlan, splits: Mapping[str, AnySplit]) -> None:
        """Check that settings and inputs equal those of the run so far, or store them.

        Args:
            plan: plan with a resolved precision, not `auto`.
            splits: the sets that were read.

        Raises:
            CheckpointError: if one of them differs; raised in all processes.
        """
        def compare() -> None:
            identity = {**lasting(plan.settings()),
                        "content of the model": DirectoryHashes({"model": plan.model})["model"]}
            for name, split in splits.items():
                content = encode_lines([one.record for one in split.examples])
                identity[f"content of {name}"] = hashlib.sha256(content).hexdigest()
            require_same_run(self._directory, self.progress.identity.setdefault(
                self.part, identity), identity)

        decide_by_main_process(compare, self.processes)

    def store(self, model: nn.Module, step: int, optimizer: dict[str, Tensor] | None = None,
              kept: str = "") -> str:
        """Write a model's weights after a step, and return the name of their directory.

        Args:
            model: model whose weights to write.
            step: number of finished updates.
            optimizer: optimizer state to write with the weights.
            kept: directory to keep; other directories that are not recorded are removed.
        """
        name = f"{_WEIGHTS}{len(self.progress.finished)}-{step}{'-state' * bool(optimizer)}"
        if self.processes.is_main_process:
            self._remove_useless(kept)
            with new_directory(self._directory / name, overwrite=True) as partial:
                save_model(model, str(partial / WEIGHTS))
                if optimizer:
                    save_file(optimizer, partial / OPTIMIZER)
                flush_to_disk(partial)
        return name

    def load(self, model: nn.Module, name: str) -> None:
        """Read weights that `store` wrote into a model."""
        path = self._directory / name / WEIGHTS
        with reading(path, "cannot be restored", start_again()):
            load_model(model, path)

    def save(self, run: Run, best: Best, trainer: Trainer) -> None:
        """Save the state of a run, unless saving would take too large a share of the time.

        Args:
            run: run to which the state is added.
            best: the best evaluation so far.
            trainer: trainer with weights and optimizer.
        """
        began, scaler = time.monotonic(), trainer.accelerator.scaler
        if not self.processes.is_main_process or began < self._next_save:
            return
        run.weights = self.store(trainer.objective.model, run.step, gather_shards(
            optimizer_tensors(trainer.objective, trainer.optimizer), True), best.weights)
        run.best, run.scaler = best, scaler.state_dict() if scaler else {}
        self.progress.running = run
        self._write()
        ended = time.monotonic()
        self._next_save = ended + (ended - began) / SHARE_OF_SAVING

    def restore(self, key: str, trainer: Trainer) -> Run:
        """Restore the state of a run, or return a new run if none was saved."""
        run = self.progress.running
        if run is None or run.key != key:
            return Run(key=key)
        self.load(trainer.objective.model, run.weights)
        restore_optimizer(self._directory / run.weights, trainer.objective, trainer.optimizer)
        if trainer.accelerator.scaler and run.scaler:
            trainer.accelerator.scaler.load_state_dict(run.scaler)
        return run

    def finish(self, key: str, run: Run) -> None:
        """Record that a run has ended."""
        self.progress.finished[key], self.progress.running = run, None
        if self.processes.is_main_process:
            self._write()

    def _write(self) -> None:
        self.progress.energy = self._step.energy()
        self.progress.wall_seconds = time.monotonic() - self.began
        with new_file(self._directory / STATE) as stream:
            stream.write(json.dumps(asdict(self.progress)).encode())
        self._remove_useless()

    def _remove_useless(self, kept: str = "") -> None:
        """Remove all directories except the one to keep and those of recorded runs."""
        running = self.progress.running
        bests = [run.best for run in (*self.progress.finished.values(), running) if run]
        useful = {kept, running and running.weights, *(best.weights for best in bests if best)}
        for path in self._directory.glob(f"{_WEIGHTS}*"):
            if path.name not in useful:
                shutil.rmtree(path)


@contextmanager
def unfinished_run(plan: FinetunePlan, processes: PartialState) -> Iterator[Unfinished]:
    """Open the directory of an unfinished fine-tuning, and remove it once the output is written.

    After an error or a signal it stays if something is done that can be continued.
    """
    run, kept = Unfinished(plan, processes), False
    try:
        yield run
    except BaseException as error:
        kept = run.progress != Progress(run.progress.identity) \
            and not isinstance(error, DivergedError)
        raise
    finally:
        if processes.is_main_process and not kept:
            discard_run(runs_directory(plan.output))


def _read_progress(directory: Path, resume: bool, overwrite: bool) -> Progress:
    """Read what is done, or clear the directory for a new run."""
    path = directory / STATE
    if resume:
        with reading(path, "cannot be restored", start_again()):
            return msgspec.convert(json.loads(path.read_text("utf-8")), Progress) \
                if path.is_file() else Progress()
    refuse_unfinished(directory, resume, overwrite)
    shutil.rmtree(directory, ignore_errors=True)
    return Progress()
