"""Mixout: at each step some inputs of each matrix meet the weights of the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bmtools.errors import CheckpointError
from bmtools.training.layers import encoder_layers

_STREAM = 11  # keeps these draws apart from those of rows and masks, which share the seed


def mixed_names(model: Any) -> list[str]:
    """Name the weights that are mixed: of every linear map in the encoder's layers, no bias.

    Embeddings and head are left out: the decoder is tied to the embeddings, and the authors mix
    linear maps only.
    """
    mixed = {id(module.weight) for layer in encoder_layers(model) for module in layer.modules()
             if isinstance(module, nn.Linear)}
    return [name for name, weight in model.named_parameters() if id(weight) in mixed]


def mix(weight: Tensor, anchor: Tensor, scale: Tensor) -> Tensor:
    """Mix a matrix with its anchor, input by input.

    With m = 1 for the inputs that keep the weight and p the probability of those that do not,
    `((1 - m) anchor + m weight - p anchor) / (1 - p)` is `anchor + m / (1 - p) (weight - anchor)`.

    Args:
        weight: (outputs, inputs).
        anchor: (outputs, inputs).
        scale: (inputs,), m / (1 - p); 0 everywhere where p is 1.
    """
    return torch.lerp(anchor, weight, scale.expand_as(weight))


class Mixout:
    """Trains the matrices of an encoder's layers through random mixtures with their start.

    One mask holds for a whole step, whatever pieces, processes and recomputations it is made of,
    so none of them changes the result. Weights are swapped for the step and gradients scaled
    after it; the modules stay as they are.

    The gradient is that of the mixture, m / (1 - p). A departure from the authors' code, which
    leaves the 1 / (1 - p) out of the gradient and so makes it smaller than that of other weights.

    Source: Lee et al. 2020, equations 2 and 3, and section 2 for masks by neuron.

    Args:
        model: without the wrappers of a distributed run, on its device.
        anchors: weights of the start by name, on the same device; see `take_anchors`.
        probability: that an input meets the start, 0 to 1.
        seed: of the masks, with the number of the step.

    Raises:
        CheckpointError: a matrix has no anchor of its shape.
    """

    def __init__(self, model: Any, anchors: Mapping[str, Tensor], probability: float,
                 seed: int) -> None:
        self._probability = probability
        self._seed = seed
        self._weights: list[nn.Parameter] = []
        self._anchors: list[Tensor] = []
        weights = dict(model.named_parameters())
        for name in mixed_names(model):
            if name not in anchors or anchors[name].shape != weights[name].shape:
                raise CheckpointError(f"{name}: found no weight of the start that mixout can mix "
                                      "it with, expected one of its shape")
            self._weights.append(weights[name])
            self._anchors.append(anchors[name])

    def scales(self, number: int) -> list[Tensor]:
        """Draw what each matrix of step `number` is scaled by, (inputs,) each."""
        rng = np.random.default_rng((self._seed, _STREAM, number))
        widths = [weight.shape[1] for weight in self._weights]
        kept = rng.random(sum(widths)) >= self._probability
        raised = kept / (1 - self._probability) if self._probability < 1 else 0.0 * kept
        # One transfer to the device, whatever the number of matrices.
        whole = torch.from_numpy(raised.astype(np.float32)).to(self._weights[0])
        return list(whole.split(widths))

    @contextmanager
    def mixed(self, number: int) -> Iterator[None]:
        """Mix for the forward and backward passes of step `number`; then give weights back.

        Enter it with cleared gradients and outside of autocast, which keeps copies of weights;
        clip and update after it.
        """
        assert all(weight.grad is None for weight in self._weights)
        scales = self.scales(number)
        own = [weight.data for weight in self._weights]
        try:
            for weight, anchor, scale in zip(self._weights, self._anchors, scales, strict=True):
                weight.data = mix(weight.data, anchor, scale)
            yield
        finally:
            for weight, values, scale in zip(self._weights, own, scales, strict=True):
                weight.data = values
                if weight.grad is not None:
                    weight.grad.mul_(scale)
