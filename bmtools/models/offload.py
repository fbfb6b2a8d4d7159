"""Weights on disk while nobody computes with them, so that a run holds one copy of them."""

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
    """Tensors in a file without a name, which goes with this process, however that ends.

    Args:
        output: on whose disk the file is; messages name it.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        place = next(parent for parent in output.absolute().parents if parent.is_dir())
        with naming(output):
            # Without a buffer, which `close` could not write to a full disk.
            self._file = tempfile.TemporaryFile(dir=place, buffering=0)  # noqa: SIM115
        self.close = weakref.finalize(self, self._file.close)
        """Give the room on the disk back; as does the end of this object."""

    def save(self, tensors: Iterable[Tensor]) -> None:
        """Write tensors in place of those before.

        Raises:
            WriteError: no room on the disk.
        """
        with naming(self._output):
            self._file.seek(0)
            for tensor in tensors:
                rest = _bytes_of(tensor.detach().to("cpu").contiguous())
                while rest:
                    rest = rest[self._file.write(rest):]

    def load(self, tensors: Iterable[Tensor]) -> None:
        """Read what `save` wrote into tensors of the same shapes and types."""
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
    """A checkpoint whose weights are in a file; its `model` has the rest, and no weights."""

    weights: WeightsFile | None = None

    def copy_model(self) -> PreTrainedModel:
        """Make a model with these weights."""
        assert self.weights is not None
        model = copy.deepcopy(self.model)
        _replace_weights(model, lambda weight: torch.empty_like(weight, device="cpu"))
        self.weights.load(model.parameters())
        return model


def offload(checkpoint: Checkpoint, output: Path) -> OffloadedCheckpoint:
    """Write a checkpoint's weights into a file beside an output, and take them from its model."""
    weights = WeightsFile(output)
    weights.save(checkpoint.model.parameters())
    _replace_weights(checkpoint.model, lambda weight: weight.to("meta"))
    return OffloadedCheckpoint(checkpoint.path, checkpoint.model, checkpoint.tokenizer,
                            checkpoint.vocabulary, checkpoint.new_weights, weights)


def _replace_weights(model: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Replace each weight; one that several modules share stays shared."""
    changed = {weight: nn.Parameter(change(weight.detach()), weight.requires_grad)
               for weight in model.parameters()}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = changed[weight]


def _bytes_of(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy().data
