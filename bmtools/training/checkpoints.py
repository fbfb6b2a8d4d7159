"""Checkpoints of a run: states to resume from, kept checkpoints, and the final one.

A state is a checkpoint with the optimizer's state and the progress of the run.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor, distribute_tensor

from bmtools.data.sampler import STREAM
from bmtools.errors import CheckpointError, setting, start_again
from bmtools.io.directories import discard_run, new_directory
from bmtools.io.failures import brief, naming, reading, require_room, write_error
from bmtools.io.json_files import read_object
from bmtools.io.output import encode_lines
from bmtools.io.provenance.manifest import Manifest, add_input
from bmtools.models.architectures import build_model
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.models.next_sentence import join_head
from bmtools.models.packed import unrounded
from bmtools.recipes.toml import to_toml
from bmtools.records import ORIGINS, JsonObject
from bmtools.training.distributed import others_wait
from bmtools.training.metrics import Progress
from bmtools.training.plan import STATE, STATES, kept_directory, newest_state, runs_directory

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from bmtools.data.sampler import StreamPosition
    from bmtools.recipes.phases import Schedule
    from bmtools.training.datasets import Datasets
    from bmtools.training.loop import Trainer
    from bmtools.training.model_init import InitialModel
    from bmtools.training.objectives import Objective
    from bmtools.training.plan import TrainingPlan

METRICS = "metrics.jsonl"
PHASES = "phases.toml"
OPTIMIZER = "optimizer.safetensors"
_HEADS = "objective.safetensors"


def find_resume_point(plan: TrainingPlan, identity: Mapping[str, object],
                      ) -> tuple[Progress, Path | None]:
    """Find the newest state to resume from, or clear the directories for a new run.

    Only one of several processes calls this and passes the result to the others.

    Args:
        plan: settings of the run.
        identity: settings and inputs that must stay the same.

    Returns:
        progress of the run, and the state to resume from; None for a new run.

    Raises:
        CheckpointError: the state belongs to another run or is damaged.
    """
    state = newest_state(plan.output) if plan.resume else None
    if state:
        return read_progress(state, identity), state
    for path in (*runs_directory(plan.output).glob(STATES), kept_directory(plan.output)):
        shutil.rmtree(path, ignore_errors=True)
    return Progress(identity), None


def read_progress(state: Path, identity: Mapping[str, object]) -> Progress:
    """Read the progress of a run, and check that it is the same run.

    Raises:
        CheckpointError: a setting, the data or the vocabulary differs, or another version of
            bmtools wrote the state.
    """
    content = read_object(state / STATE)
    way_out = f"resume with that version, or {start_again()}"
    if content.get("stream") != STREAM:
        raise CheckpointError(f"{state}: written by a version of bmtools that orders and packs "
                              f"documents differently; {way_out}")
    with reading(state, "written by another version of bmtools", way_out):
        progress = msgspec.convert(content, Progress)
    require_same_run(state.parent, progress.identity, identity)
    return progress


def require_same_run(run: Path, before: Mapping[str, object],
                     identity: Mapping[str, object]) -> None:
    """Check that settings and inputs are the same as in an unfinished run.

    Raises:
        CheckpointError: a value differs; the message names the run's directory and the value.
    """
    current = json.loads(json.dumps(identity))
    for name in sorted({*current, *before}):
        old, new = before.get(name), current.get(name)
        if old != new:
            raise CheckpointError(
                f"{run}: the unfinished run has {name} {old}, found {new}; resume with "
                f"the same settings, or {start_again()}")


@dataclass(frozen=True)
class Checkpointer:
    """Writer of a run's states and checkpoints; every process calls it, the main one writes.

    Args:
        plan: settings of the run.
        initial: tokenizer and vocabulary of the model.
        datasets: datasets of the run; their hashes are written into manifests.
        trainer: trainer with the weights and the optimizer.
        progress: progress of the run.
        schedule: schedule of the run.
        writers: number of processes on the main process's machine.
        group: all processes; see `copy_state`.
    """

    plan: TrainingPlan
    initial: InitialModel
    datasets: Datasets
    trainer: Trainer
    progress: Progress
    schedule: Schedule
    writers: int = 1
    group: ProcessGroup | None = None
    _pending: list[Future[None]] = field(default_factory=list)

    def save(self, positions: Mapping[str, StreamPosition]) -> None:
        """Copy a state, and write it while training continues.

        On a CPU with a memory limit there is no copy, and training waits.

        Args:
            positions: positions at which the run continues in the text and the text to replay, by
                corpus.

        Raises:
            DivergedError: a weight is not finite; earlier states stay.
            WriteError: an earlier state could not be written.
        """
        self.settle()
        self.trainer.require_finite_weights()
        self._take_energy()
        self.progress.positions |= {corpus: position.to_json()
                                    for corpus, position in positions.items()}
        accelerator = self.trainer.accelerator
        scaler = accelerator.scaler
        self.progress.scaler = scaler.state_dict() if scaler else {}
        self.progress.recent = [one.tolist() for one in self.trainer.recent]
        copies = accelerator.device.type != "cpu" or not self.plan.optimization.memory_gib
        write = copy_state(
            runs_directory(self.plan.output), self.progress, self.trainer.objective,
            self.trainer.optimizer, self.initial.tokenizer, self._manifest(),
            self.plan.reporting.save_total_limit, self.writers, self.group, copies)
        self._pending.append(ThreadPoolExecutor(1).submit(write))
        if not copies:
            self.settle()

    def settle(self) -> None:
        """Wait for the state that is being written.

        Raises:
            WriteError: it could not be written.
        """
        if self._pending:
            self._pending.pop().result()

    def has_failed(self) -> bool:
        """Return whether it is already known that `settle` will raise an error."""
        return any(state.done() and state.exception() for state in self._pending)

    def keep(self, name: str) -> None:
        """Write a checkpoint that is kept next to the output."""
        self._write(kept_directory(self.plan.output) / name, overwrite=True)

    def score(self) -> list[JsonObject]:
        """Score the weights by the plan's scorers, as a checkpoint in the run's directory.

        Returns:
            the lines of metrics: step, phase, tokens, scores and seconds. The other processes wait
            for the main process and get an empty list.
        """
        self.settle()
        accelerator, lines = self.trainer.accelerator, list[JsonObject]()
        model = unsharded_model(self.trainer.objective.model, accelerator.is_main_process)
        with others_wait(accelerator):
            if model is None:
                return []
            directory = runs_directory(self.plan.output) / "scored"
            with new_directory(directory, overwrite=True) as partial:
                write_checkpoint_files(partial, model, self.initial.tokenizer, self._manifest())
            now = {"step": self.progress.step, "tokens_seen": self.progress.tokens_seen}
            for scorer in self.plan.scorers:
                began = time.monotonic()
                with unrounded(accelerator.device):
                    scores = scorer(directory)[0]
                lines.append({**now, **{key: value for key, value in scores.items()
                                        if key not in ("model", "by")},
                              "seconds": round(time.monotonic() - began, 3)})
            shutil.rmtree(directory)
        self.progress.metrics += lines
        return lines

    def finish(self) -> JsonObject:
        """Write the final checkpoint, remove the states, and return the manifest's content."""
        written = self._write(self.plan.output, self.plan.overwrite)
        if self.trainer.accelerator.is_main_process:
            discard_run(runs_directory(self.plan.output))
        self.trainer.accelerator.wait_for_everyone()
        return written

    def way_back(self) -> str:
        """Return a hint that names the state to resume from after a failure."""
        with suppress(Exception):
            self.settle()
        state = newest_state(self.plan.output)
        return f"the last good state is {state}" if state else \
            f"no state was saved yet; save states more often with {setting('save_steps')}"

    def _write(self, target: Path, overwrite: bool) -> JsonObject:
        self.settle()
        self.trainer.require_finite_weights()
        self._take_energy()
        accelerator = self.trainer.accelerator
        model = unsharded_model(self.trainer.objective.model, accelerator.is_main_process)
        head = self._next_sentence()
        with others_wait(accelerator):
            if model is None:
                return {}
            with new_directory(target, overwrite) as partial:
                (partial / METRICS).write_bytes(encode_lines(self.progress.metrics))
                (partial / PHASES).write_text(to_toml(self.plan.config), encoding="utf-8")
                written = write_checkpoint_files(partial, join_head(model, head),
                                                 self.initial.tokenizer, self._manifest())
                flush_to_disk(partial)
            return written

    def _take_energy(self) -> None:
        self.plan.step.gather_energy(gather_object)
        self.progress.energy = self.plan.step.energy()

    def _next_sentence(self) -> dict[str, Tensor]:
        """Gather the head of next-sentence prediction; empty before it has been trained."""
        head = self.trainer.objective.next_sentence
        trained = any(phase.objective.pair_term
                      for phase in self.schedule.phases[:self._phases_begun()])
        if head is None or not (trained or self.initial.next_sentence):
            return {}
        return gather_shards(head.state_dict().items(),
                             self.trainer.accelerator.is_main_process)

    def _phases_begun(self) -> int:
        return self.schedule.phase_step(max(self.progress.step - 1, 0)).phase_number + 1

    def _manifest(self) -> Manifest:
        """Describe a checkpoint made at this point of the run."""
        plan, progress = self.plan, self.progress
        settings = plan.settings()
        settings["phases"] = settings["phases"][:self._phases_begun()]
        results: JsonObject = {
            "steps": progress.step, "layout": plan.layout,
            "corpora": {name: {"documents": len(corpus), "tokens": corpus.tokens}
                        for name, corpus in self.datasets.train.items()}}
        for name, key in (("last", "loss"), ("evaluate", "evaluate")):
            lines = [line for line in progress.metrics if key in line]
            results |= {name: lines[-1]} if lines else {}
        if progress.retained:
            results["retained"] = dict(progress.retained)
            if len(progress.retained) > 1:
                before, after = (progress.retained[when]["loss"] for when in ("before", "after"))
                results["retained"]["cost"] = round(after - before, 6)
        for name in ORIGINS.values():
            found = {value for corpus in self.datasets.train.values()
                     for value in corpus.origins.get(name, ()) if value}
            results |= {name: sorted(found)} if found else {}
        corpora = (*self.datasets.train.values(), *self.datasets.auxiliary.values())
        hashes: dict[str, str] = {}
        for corpus in corpora:
            for file, digest in corpus.inputs.items():
                add_input(hashes, file, digest)
        return Manifest(plan.command, settings, self.initial.vocabulary,
                        plan.optimization.seed, hashes, plan.parents,
                        progress.tokens_seen, progress.wall_seconds, results,
                        {"text": self.datasets.licences()}, plan.step)


def copy_state(directory: Path, progress: Progress, objective: Objective,
               optimizer: torch.optim.Optimizer, tokenizer: PreTrainedTokenizerFast,
               manifest: Manifest, kept: int = 1, writers: int = 1,
               group: ProcessGroup | None = None, copies: bool = True) -> Callable[[], None]:
    """Copy a state; return the function that writes it and removes all but the newest states.

    Every process calls both. The state gets its name once all files are complete.

    Args:
        directory: directory of the run.
        progress: progress of the run.
        objective: the model, and heads trained with it.
        optimizer: optimizer whose state is saved.
        tokenizer: the model's tokenizer.
        manifest: manifest of the checkpoint in the state.
        kept: number of states that stay.
        writers: number of processes, from the first, that each write a part of the optimizer's
            state.
        group: all processes, for communication while training uses other groups; None for one
            process.
        copies: whether training continues before the state is written.
    """
    rank = distributed.get_rank(group) if group else 0
    state, content = directory / f"step-{progress.step:08d}", json.dumps(vars(progress))
    named = objective.state_dict(keep_vars=True)
    # Tied weights are saved under their first name.
    unique = {id(value): (name, value) for name, value in reversed(named.items())}
    heads = gather_shards(reversed(unique.values()), rank == 0, copies)
    weights = {name.removeprefix("model."): heads.pop(name) for name in [*heads]
               if name.startswith("model.")}
    outline = build_model(objective.model.config, "meta")  # because training changes the model
    part = dict[str, Tensor]()
    sizes = [sum(value.nbytes for _, value in unique.values()), *[0] * (writers - 1)]
    for name, value in optimizer_tensors(objective, optimizer):
        writer = sizes.index(min(sizes))
        sizes[writer] += value.nbytes
        part |= gather_shards([(name, value)], rank == writer, copies)

    def write_part(directory: Path) -> None:
        if rank == 0:
            write_checkpoint_files(directory, outline, tokenizer, manifest, weights)
            if heads:
                save_file(heads, directory / _HEADS)
        if rank < writers:
            path = directory / optimizer_file(rank, writers)
            require_room(path, sum(value.nbytes for value in part.values()))
            save_file(part, path)

    return lambda: write_state(state, write_part, content, kept, group)


def write_state(state: Path, write: Callable[[Path], None], progress: str, kept: int,
                group: ProcessGroup | None) -> None:
    """Write a state atomically, then remove all but the newest ones; every process calls this.

    Args:
        state: directory of the state.
        write: function that writes this process's files into a directory.
        progress: content of the last file.
        kept: number of states that stay.
        group: all processes; None for one process.
    """
    if group and distributed.get_rank(group):
        with naming(state):
            write_together(write, state, group)
    else:
        with new_directory(state, overwrite=True) as directory:
            write_together(write, directory, group)
            (directory / STATE).write_text(progress, encoding="utf-8")
            flush_to_disk(directory)
        for older in sorted(state.parent.glob(STATES), reverse=True)[kept:]:
            shutil.rmtree(older)
    if group:
        distributed.barrier(group)


def write_together(write: Callable[[Path], None], directory: Path,
                   group: ProcessGroup | None) -> None:
    """Let all processes write into the main process's directory; raise any error in all of them.

    The arguments are as for `write_state`.
    """
    if group is None:
        return write(directory)
    shared, error = [directory], None
    distributed.broadcast_object_list(shared, group=group)
    try:
        write(shared[0])
    except Exception as raised:
        error = write_error(raised) or OSError(brief(raised))
    errors = [error] * distributed.get_world_size(group)
    distributed.all_gather_object(errors, error, group)
    for found in filter(None, errors):
        raise found


def optimizer_file(number: int, files: int) -> str:
    """Return the name of a file of an optimizer's state, numbered from 0."""
    return OPTIMIZER if files == 1 else \
        OPTIMIZER.replace(".", f"-{number + 1:05d}-of-{files:05d}.")


def optimizer_tensors(objective: Objective, optimizer: torch.optim.Optimizer,
                      ) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of an optimizer's state with the names for `restore_optimizer`."""
    return ((f"{name}|{kind}", value) for name, weight in objective.named_parameters()
            for kind, value in optimizer.state.get(weight, {}).items())


def flush_to_disk(directory: Path) -> None:
    """Wait until a directory's files would survive a power failure."""
    for path in (*directory.iterdir(), directory):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def restore_heads(state: Path, objective: Objective) -> None:
    """Load the weights trained with the model; call this before weights are sharded."""
    if not (state / _HEADS).exists():
        return
    with _restoring(state / _HEADS):
        objective.load_state_dict(load_file(state / _HEADS), strict=False)


def restore_optimizer(state: Path, objective: Objective, optimizer: torch.optim.Optimizer) -> None:
    """Load the optimizer's state, sharded like the weights."""
    weights = dict(objective.named_parameters())
    part = next(state.glob("optimizer-*"), None)
    files = int(part.stem[-5:]) if part else 1
    for path in (state / optimizer_file(number, files) for number in range(files)):
        with _restoring(path):
            for key, value in load_file(path).items():
                name, _, kind = key.rpartition("|")
                weight = weights[name]
                value = value.to(weight.device, torch.float32 if kind == "step" else weight.dtype)
                if isinstance(weight, DTensor) and value.shape == weight.shape:
                    value = distribute_tensor(value, weight.device_mesh, weight.placements)
                optimizer.state[weight][kind] = value


def _restoring(path: Path) -> AbstractContextManager[None]:
    return reading(path, "cannot be restored", f"remove {path.parent} to resume from an earlier "
                   f"state, or {start_again()}")


def gather_shards(tensors: Iterable[tuple[str, Tensor]], keep: bool,
                  copies: bool = False) -> dict[str, Tensor]:
    """Gather sharded tensors, one at a time; every process takes part.

    Args:
        tensors: names and tensors, in the same order on all processes.
        keep: whether this process needs them; gathered tensors are moved to the CPU.
        copies: whether tensors that are not sharded are also copied to the CPU.
    """
    gathered = {}
    for name, tensor in tensors:
        value = tensor.detach()
        if isinstance(value, DTensor):
            value = value.full_tensor()
            value = value.cpu() if keep else value
        elif copies and keep:
            value = value.to("cpu", copy=True)
        if keep:
            gathered[name] = value.contiguous()
    return gathered


def unsharded_model(model: PreTrainedModel, keep: bool) -> PreTrainedModel | None:
    """Return the model or, if it is sharded, a copy with gathered weights on the CPU.

    Every process takes part. Processes that do not keep the model get None.
    """
    if not any(isinstance(weight, DTensor) for weight in model.parameters()):
        return model if keep else None
    weights = gather_shards(model.state_dict().items(), keep)
    if not keep:
        return None
    copy = build_model(model.config, "meta")
    copy.load_state_dict(weights, assign=True)
    copy.tie_weights()
    return copy
