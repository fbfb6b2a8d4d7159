"""Losses whose gradients are computed chunk by chunk in the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ChunkLoss = Callable[[Tensor, slice], tuple[Tensor, Tensor | int]]
"""Computes a loss and a count of some rows of states, which are given with their place."""


def rows_in_chunks(rows: int, chunk_size: int) -> list[slice]:
    """Cut rows into chunks of some size, the last one as it comes."""
    return [slice(start, start + chunk_size) for start in range(0, rows, chunk_size)]


def sum_by_chunks(compute: ChunkLoss, chunks: Iterable[slice], states: Tensor,
                  weights: Iterable[Tensor] = ()) -> tuple[Tensor, Tensor]:
    """Add up losses and counts of chunks, in the memory of one chunk and of its gradients.

    Args:
        compute: of the rows of a chunk.
        chunks: of rows; those in none get no gradient.
        states: (rows, ...).
        weights: that `compute` uses, to be trained.

    Returns:
        two scalars: the sum, at least in float32, and the count, int64, which has no gradient.
    """
    total, count = _ChunkedSum.apply(compute, chunks, states, *weights)
    return total, count


class _ChunkedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: ChunkLoss, chunks: Iterable[slice], states: Tensor,
                *weights: Tensor) -> tuple[Tensor, Tensor]:
        """Add up losses and counts, and save the gradients of the losses."""
        precision = torch.promote_types(states.dtype, torch.float32)
        total = torch.zeros((), device=states.device, dtype=precision)
        count = torch.zeros((), dtype=torch.int64, device=states.device)
        state_gradients = torch.zeros_like(states)
        # In float32 also where weights are sharded and gathered in bfloat16.
        weight_gradients = [torch.zeros_like(weight, dtype=precision) for weight in weights]
        for chunk in chunks:
            with torch.enable_grad():
                inputs = states[chunk].detach().requires_grad_()
                loss, counted = compute(inputs, chunk)
            state_gradients[chunk], *parts = torch.autograd.grad(loss, [inputs, *weights])
            for gradient, part in zip(weight_gradients, parts, strict=True):
                gradient += part
            total += loss.detach()
            count += counted
        ctx.save_for_backward(state_gradients, *weight_gradients)
        ctx.mark_non_differentiable(count)
        return total, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: object) -> tuple[Any, ...]:
        """Multiply the saved gradients."""
        return (None, None, *(upstream * gradient for gradient in ctx.saved_tensors))
