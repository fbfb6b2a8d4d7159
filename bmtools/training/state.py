"""States to resume from: a checkpoint, the optimizer's memory and the place in the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bmtools.errors import CheckpointError
from bmtools.io.aside import new_directory
from bmtools.io.manifest import Manifest
from bmtools.models.checkpoint import fill_checkpoint

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
    """

    identity: Mapping[str, Any]
    step: int = 0
    tokens_seen: int = 0
    wall_seconds: float = 0.0
    pending: dict[str, float] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    retained: dict[str, Any] = field(default_factory=dict)


def runs_directory(output: Path) -> Path:
    """Where the states of an unfinished run lie: beside the checkpoint it will become."""
    return output.with_name(output.name + ".run")


def kept_directory(output: Path) -> Path:
    """Where checkpoints kept for good lie: those of each phase, and of every so many steps."""
    return output.with_name(output.name + ".kept")


def save_state(directory: Path, progress: Progress, objective: Any, optimizer: Any,
               tokenizer: Any, manifest: Manifest, kept: int = 1) -> Path:
    """Write a state that is whole or absent, then drop all but the newest ones.

    Args:
        kept: how many stay.
    """
    target = directory / f"step-{progress.step:08d}"
    with new_directory(target, overwrite=True) as partial:
        fill_checkpoint(partial, objective.model, tokenizer, manifest)
        extras = _extra_weights(objective)
        if extras:
            save_file(extras, partial / _EXTRAS)
        save_file(_optimizer_tensors(objective, optimizer), partial / _OPTIMIZER)
        sizes = {path.name: path.stat().st_size for path in partial.iterdir()}
        (partial / _STATE).write_text(json.dumps({**vars(progress), "files": sizes}),
                                      encoding="utf-8")
    for older in _states(directory)[kept:]:
        shutil.rmtree(older)
    return target


def latest_state(directory: Path) -> Path | None:
    """Find the newest whole state of a run; one that a crash or a full disk damaged is no state."""
    return next((state for state in _states(directory) if _is_whole(state)), None)


def _states(directory: Path) -> list[Path]:
    return sorted(directory.glob("step-*"), reverse=True)


def _is_whole(state: Path) -> bool:
    try:
        sizes = json.loads((state / _STATE).read_text(encoding="utf-8"))["files"]
        return all((state / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def read_progress(state: Path, identity: Mapping[str, Any]) -> Progress:
    """Read where a run stood, and make sure that this is the same run.

    Raises:
        CheckpointError: a setting, the data or the vocabulary is another one.
    """
    content = json.loads((state / _STATE).read_text(encoding="utf-8"))
    content.pop("files")
    progress = Progress(**content)
    for name in sorted({*identity, *progress.identity}):
        old, new = progress.identity.get(name), identity.get(name)
        if old != new:
            raise CheckpointError(
                f"{state.parent}: the unfinished run has {name} {old}, found {new}; "
                "resume with what it was started with, or start again with --overwrite")
    return progress


def restore(state: Path, objective: Any, optimizer: Any) -> None:
    """Put a state's extra weights and optimizer memory back; the model is loaded already."""
    extras = state / _EXTRAS
    if extras.exists():
        objective.load_state_dict(load_file(extras), strict=False)
    tensors = load_file(state / _OPTIMIZER)
    memory = _memory(optimizer)
    for name, parameter in objective.named_parameters():
        entries = {key.rpartition("|")[2]: value for key, value in tensors.items()
                   if key.rpartition("|")[0] == name}
        if entries:
            memory[parameter] = {
                key: value.to(torch.float32 if key == "step" else parameter.dtype)
                          .to(parameter.device)
                for key, value in entries.items()}


def _optimizer_tensors(objective: nn.Module, optimizer: Any) -> dict[str, Tensor]:
    memory = _memory(optimizer)
    return {f"{name}|{key}": value.detach().contiguous()
            for name, parameter in objective.named_parameters() if parameter in memory
            for key, value in memory[parameter].items()}


def _memory(optimizer: Any) -> Any:
    """Accelerate wraps the optimizer; its memory is keyed by the parameters themselves."""
    return getattr(optimizer, "optimizer", optimizer).state


def _extra_weights(objective: nn.Module) -> dict[str, Tensor]:
    """The weights that the objective trains beside the model."""
    return {name: value.detach().contiguous() for name, value in objective.state_dict().items()
            if not name.startswith("model.")}
