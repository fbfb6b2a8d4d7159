"""Exponential moving averages of weights, kept among the states of their optimizer.

States are saved, resumed and sharded with the weights, and so are averages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

_AVERAGE = "average"


@torch.no_grad()
def update_averages(optimizer: Optimizer, decay: float, updates: int) -> None:
    """Move averages towards the weights; that of a weight's first update is the weight.

    The decay rises with the updates, so that a short run does not average its beginning: to
    (1 + updates) / (10 + updates), as in TensorFlow's ExponentialMovingAverage and in diffusers.

    Args:
        optimizer: of the weights, which it has updated.
        decay: highest weight of the average before; below 1.
        updates: done so far.
    """
    for weight, state in optimizer.state.items():
        if state and _AVERAGE not in state:
            state[_AVERAGE] = weight.detach().clone()
    pairs = [*_pairs(optimizer)]
    if pairs:  # the loss scaler of fp16 may skip the first updates
        weights, averages = zip(*pairs, strict=True)
        get_ema_multi_avg_fn(min(decay, (1 + updates) / (10 + updates)))(averages, weights, updates)


@contextmanager
def averaged_weights(optimizer: Optimizer) -> Iterator[None]:
    """Put averages in the place of weights inside, where there are some."""
    _swap(optimizer)
    try:
        yield
    finally:
        _swap(optimizer)


@torch.no_grad()
def _swap(optimizer: Optimizer) -> None:
    for weight, average in _pairs(optimizer):
        before = weight.clone()
        weight.copy_(average)
        average.copy_(before)


def _pairs(optimizer: Optimizer) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this process's part of each weight and of its average."""
    for weight, state in optimizer.state.items():
        if _AVERAGE in state:
            yield _local(weight), _local(state[_AVERAGE])


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor.detach()
