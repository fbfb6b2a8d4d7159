"""Weights on disk while they are not in use, so that a run keeps one copy in memory."""

from __future__ import annotations

import copy
import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bmtools.io.failures import naming
from bmtools.models.checkpoint import Checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class WeightsFile:
    """Tensors in an unnamed file, which is deleted when this process ends in any way.

    Args:
        output: path on the disk that the file is created on; messages name it.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        place = next(parent for parent in output.absolute().parents if parent.is_dir())
        with naming(output):
            # Unbuffered, because `close` could not write a buffer to a full disk.
            self._file = tempfile.TemporaryFile(dir=place, buffering=0)  # noqa: SIM115
        self.close = weakref.finalize(self, self._file.close)
        """Free the space on the disk; this also happens when the object is deleted."""

    def save(self, tensors: Iterable[Tensor]) -> None:
        """Write tensors, replacing the previous ones.

        Raises:
            WriteError: the disk has no room.
        """
        with naming(self._output):
            self._file.seek(0)
            for tensor in tensors:
                rest = _bytes_of(tensor.detach().to("cpu").contiguous())
                while rest:
                    rest = rest[self._file.write(rest):]

    def load(self, tensors: Iterable[Tensor]) -> None:
        """Read the saved values into tensors of the same shapes and types."""
        self._file.seek(0)
        for tensor in tensors:
            stored = torch.empty(tensor.shape, dtype=tensor.dtype)
            rest = _bytes_of(stored)
            while rest:
                rest = rest[self._file.readinto(rest):]
            with torch.no_grad():
                tensor.copy_(stored)


@dataclass(frozen=True)
class OffloadedCheckpoint(Checkpoint):
    """A checkpoint whose weights are in a file; its `model` has no weights."""

    weights: WeightsFile | None = None

    def copy_model(self) -> PreTrainedModel:
        """Make a model with these weights."""
        assert self.weights is not None
        model = copy.deepcopy(self.model)
        _replace_weights(model, lambda weight: torch.empty_like(weight, device="cpu"))
        self.weights.load(model.parameters())
        return model


def offload(checkpoint: Checkpoint, output: Path) -> OffloadedCheckpoint:
    """Move a checkpoint's weights from its model to a file on the disk of an output."""
    weights = WeightsFile(output)
    weights.save(checkpoint.model.parameters())
    _replace_weights(checkpoint.model, lambda weight: weight.to("meta"))
    return OffloadedCheckpoint(checkpoint.path, checkpoint.model, checkpoint.tokenizer,
                            checkpoint.vocabulary, checkpoint.new_weights, weights)


def _replace_weights(model: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Replace each weight; shared weights stay shared."""
    changed = {weight: nn.Parameter(change(weight.detach()), weight.requires_grad)
               for weight in model.parameters()}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = changed[weight]


def _bytes_of(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy().data
