"""Losses of distillation: sums of what differs between a student and its teacher."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bmtools.models.mlm import wide

# Numbers in the memory of a pass over rows: what stays in a CPU's cache, what keeps a GPU busy.
_CACHED_ON_CPU = 2**18
_CACHED_ON_GPU = 2**27
# A logarithm of 0 would give no number; less than this is no number of float32.
_LEAST_LOG = -87.0


def teacher_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Sum the Kullback-Leibler divergences of predictions from a teacher's, in nats.

    Multiplied by the squared temperature, so that gradients keep their size (Hinton et al. 2015,
    section 2).

    Args:
        logits: (rows, classes), at least float32.
        teacher_logits: shaped alike; overwritten by the gradient, to save its memory.
        temperature: of both softmax distributions.
    """
    summed: Tensor = _Divergence.apply(logits, teacher_logits, temperature)
    return summed


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
        total = logits.new_zeros(())
        numbers = _CACHED_ON_CPU if logits.device.type == "cpu" else _CACHED_ON_GPU
        rows = max(1, numbers // logits.shape[-1])
        for own, theirs in zip(logits.split(rows), teacher_logits.split(rows), strict=True):
            predicted = functional.log_softmax(own / temperature, dim=-1)
            taught = functional.log_softmax(theirs / temperature, dim=-1).clamp_(min=_LEAST_LOG)
            expected = taught.exp()
            total += taught.sub_(predicted).mul_(expected).sum()
            torch.sub(predicted.exp_(), expected, out=theirs)
        ctx.save_for_backward(teacher_logits)
        ctx.temperature = temperature
        return total * temperature**2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient, = ctx.saved_tensors
        return gradient.mul_(upstream * ctx.temperature), None, None


def cosine_distance(states: Tensor, teacher_states: Tensor) -> Tensor:
    """Sum 1 minus the cosine of states over tokens.

    Source: Sanh et al. 2020 (DistilBERT), section 2.

    Args:
        states: (tokens, width), projected to the teacher's width.
        teacher_states: shaped alike.
    """
    return (1 - functional.cosine_similarity(wide(states), wide(teacher_states), dim=-1)).sum()
