"""States to resume from: a checkpoint, the optimizer's memory and the place in the run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bmtools.errors import CheckpointError
from bmtools.io.atomic import new_directory
from bmtools.io.manifest import Manifest
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.training.run_directories import STATES
from bmtools.training.sharding import like, plain_model, whole

_STATE = "state.json"
_OPTIMIZER = "optimizer.safetensors"
_EXTRAS = "objective.safetensors"


@dataclass
class Progress:
    """Where a run stands.

    Args:
        identity: what must be equal for a resumed run to be the same run, by name.
        step: updates done.
        tokens_seen: tokens that went in, padding left out.
        wall_seconds: time spent, over all sittings.
        pending: sums since the last report, by name.
        metrics: the lines reported so far.
        retained: scores of the text that must not be forgotten, before and after.
        scaler: what fp16 scales losses by, and how it got there; empty in other precisions.
    """

    identity: Mapping[str, Any]
    step: int = 0
    tokens_seen: int = 0
    wall_seconds: float = 0.0
    pending: dict[str, float] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    retained: dict[str, Any] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)


def save_state(directory: Path, progress: Progress, objective: Any, optimizer: Any,
               tokenizer: Any, manifest: Manifest, kept: int = 1, writes: bool = True) -> None:
    """Write a state that is whole or absent, then drop all but the newest ones.

    Args:
        directory: of the run.
        progress: where it stands.
        objective: the model, and what is trained beside it.
        optimizer: its memory is kept.
        tokenizer: of the model.
        manifest: what a checkpoint says of itself.
        kept: how many states stay.
        writes: whether this process does; where weights are shared out, all must call.
    """
    model = plain_model(objective.model, writes)
    extras = whole(_extra_weights(objective), writes)
    memory = whole(_optimizer_tensors(objective, optimizer), writes)
    if not writes:
        return
    with new_directory(directory / f"step-{progress.step:08d}", overwrite=True) as partial:
        write_checkpoint_files(partial, model, tokenizer, manifest)
        if extras:
            save_file(extras, partial / _EXTRAS)
        save_file(memory, partial / _OPTIMIZER)
        sizes = {path.name: path.stat().st_size for path in partial.iterdir()}
        (partial / _STATE).write_text(json.dumps({**vars(progress), "files": sizes}),
                                      encoding="utf-8")
        flush_to_disk(partial)
    for older in _states(directory)[kept:]:
        shutil.rmtree(older)


def flush_to_disk(directory: Path) -> None:
    """Wait until a directory's files would outlive a loss of power."""
    for path in (*directory.iterdir(), directory):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def latest_state(directory: Path) -> Path | None:
    """Find the newest whole state of a run; one that a crash or a full disk damaged is no state."""
    return next((state for state in _states(directory) if _is_whole(state)), None)


def damaged_states(directory: Path) -> list[Path]:
    """Find the states of a run that are not whole, the newest first."""
    return [state for state in _states(directory) if not _is_whole(state)]


def _states(directory: Path) -> list[Path]:
    return sorted(directory.glob(STATES), reverse=True)


def _is_whole(state: Path) -> bool:
    try:
        sizes = json.loads((state / _STATE).read_text(encoding="utf-8"))["files"]
        return all((state / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_progress(state: Path, identity: Mapping[str, Any]) -> Progress:
    """Read where a run stood, and make sure that this is the same run.

    Raises:
        CheckpointError: a setting, the data or the vocabulary is another one, or another version
            of bmtools wrote the state.
    """
    content = json.loads((state / _STATE).read_text(encoding="utf-8"))
    content.pop("files")
    try:
        progress = Progress(**content)
    except TypeError as error:
        raise CheckpointError(f"{state}: written by another version of bmtools ({error}); go on "
                              "with that one, or start again with --overwrite") from error
    current = json.loads(json.dumps(identity))
    for name in sorted({*current, *progress.identity}):
        old, new = progress.identity.get(name), current.get(name)
        if old != new:
            raise CheckpointError(
                f"{state.parent}: the unfinished run has {name} {old}, found {new}; "
                "resume with what it was started with, or start again with --overwrite")
    return progress


def restore_extras(state: Path, objective: Any) -> None:
    """Put back what is trained beside the model; before weights are shared out."""
    if (state / _EXTRAS).exists():
        objective.load_state_dict(load_file(state / _EXTRAS), strict=False)


def restore_memory(state: Path, objective: Any, optimizer: Any) -> None:
    """Put back what the optimizer remembers, sharing it out as the weights are."""
    entries: dict[str, dict[str, Tensor]] = {}
    for key, value in load_file(state / _OPTIMIZER).items():
        name, _, kind = key.rpartition("|")
        entries.setdefault(name, {})[kind] = value
    memory = _memory(optimizer)
    for name, weight in objective.named_parameters():
        if name in entries:
            memory[weight] = {
                kind: like(value.to(torch.float32 if kind == "step" else weight.dtype), weight)
                for kind, value in entries[name].items()}


def _optimizer_tensors(objective: nn.Module, optimizer: Any) -> Iterator[tuple[str, Tensor]]:
    memory = _memory(optimizer)
    for name, weight in objective.named_parameters():
        if weight in memory:
            for kind, value in memory[weight].items():
                yield f"{name}|{kind}", value


def _memory(optimizer: Any) -> Any:
    """Accelerate wraps the optimizer; its memory is keyed by the parameters themselves."""
    return getattr(optimizer, "optimizer", optimizer).state


def _extra_weights(objective: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights that the objective trains beside the model."""
    return ((name, value) for name, value in objective.state_dict().items()
            if not name.startswith("model."))
