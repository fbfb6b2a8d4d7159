"""The weights a run starts from: kept, and a pull back towards them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from bmtools.errors import CheckpointError
from bmtools.io.atomic import new_file


def copy_initial_weights(model: nn.Module, names: Collection[str] | None = None) -> dict[str,
                                                                                         Tensor]:
    """Copy weights, where they are, under their names; all of them, or those named.

    Args:
        model: without the wrappers of a distributed run.
        names: what mixout needs is `mixed_names(model)`; the pull needs all.
    """
    return {name: weight.detach().clone() for name, weight in model.named_parameters()
            if names is None or name in names}


def save_initial_weights(path: Path, anchors: Mapping[str, Tensor]) -> None:
    """Write anchors as safetensors, whole or not at all."""
    content = save({name: anchor.contiguous() for name, anchor in anchors.items()})
    with new_file(path) as stream:
        stream.write(content)


def load_initial_weights(path: Path, model: nn.Module) -> dict[str, Tensor]:
    """Read anchors and put each beside the weight it belongs to.

    Raises:
        CheckpointError: the file is missing, or holds weights that the model does not have.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: the weights of the start are missing, which mixout and "
                              "the pull towards them need; start the run again with --overwrite")
    anchors = load_file(path)
    weights = dict(model.named_parameters())
    for name, anchor in anchors.items():
        expected = weights[name].shape if name in weights else None
        if anchor.shape != expected:
            raise CheckpointError(
                f"{path}: found {name} of shape {tuple(anchor.shape)}, expected "
                f"{tuple(expected) if expected else 'a weight of the model'}; start the run again "
                "with --overwrite")
    return {name: anchor.to(weights[name]) for name, anchor in anchors.items()}


class L2SP:
    """The L2 penalty on the distance from the start, `strength / 2` times its square.

    The gradient is added to those that are there, without a graph. Weights that have no anchor of
    their shape (a new head, a new vocabulary) are left alone, and so are frozen ones. The usual
    decay towards zero goes on beside it; switch it off to follow the paper.

    Source: Li et al. 2018 (L2-SP), equation 2, without its second term for new weights.

    Args:
        model: without the wrappers of a distributed run, on its device.
        anchors: weights of the start by name, on the same device.
        strength: of the penalty.
    """

    def __init__(self, model: nn.Module, anchors: Mapping[str, Tensor], strength: float) -> None:
        self._strength = strength
        self._pairs = [(weight, anchors[name]) for name, weight in model.named_parameters()
                       if name in anchors and anchors[name].shape == weight.shape]

    @torch.no_grad()
    def penalty(self) -> Tensor:
        """Give the penalty, a scalar on the device, over all weights that have an anchor."""
        weights, anchors = self._lists(trained_only=False)
        if not weights:
            return torch.zeros(())
        distances = torch._foreach_norm(torch._foreach_sub(weights, anchors))
        return self._strength / 2 * torch.stack(distances).square().sum()

    @torch.no_grad()
    def add_gradients(self, scale: float = 1.0) -> None:
        """Add the penalty's gradient to the weights' own, before they are clipped.

        Args:
            scale: what gradients are scaled by at the moment, as fp16 scales them.
        """
        weights, anchors = self._lists(trained_only=True)
        if weights:
            gradients: list[Any] = [weight.grad for weight in weights]
            torch._foreach_add_(gradients, torch._foreach_sub(weights, anchors),
                                alpha=self._strength * scale)

    def _lists(self, trained_only: bool) -> tuple[list[Tensor], list[Tensor]]:
        pairs = [(weight, anchor) for weight, anchor in self._pairs
                 if weight.grad is not None or not trained_only]
        return [weight for weight, _ in pairs], [anchor for _, anchor in pairs]
