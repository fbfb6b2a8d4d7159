"""Losses of distillation: sums of what differs between a student and its teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bmtools.models.chunks import rows_in_chunks, sum_by_chunks
from bmtools.models.mlm import wide

# Numbers in the memory of a pass over rows: what stays in a CPU's cache, what keeps a GPU busy.
_CACHED_ON_CPU = 2**18
_CACHED_ON_GPU = 2**27
# A logarithm of 0 would give no number; less than this is no number of float32.
_LEAST_LOG = -87.0
# Scores of relations at a time.
_SCORES = 2**25


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


def hidden_distance(states: Tensor, teacher_states: Tensor) -> Tensor:
    """Sum the squared distance of states over tokens, as a mean over their width.

    Source: Jiao et al. 2020 (TinyBERT), equations 8 and 9.

    Args:
        states: (tokens, width), projected to the teacher's width.
        teacher_states: shaped alike.
    """
    return (wide(states) - wide(teacher_states)).square().mean(-1).sum()


def cosine_distance(states: Tensor, teacher_states: Tensor) -> Tensor:
    """Sum 1 minus the cosine of states over tokens; shapes as for `hidden_distance`.

    Source: Sanh et al. 2020 (DistilBERT), section 2.
    """
    return (1 - functional.cosine_similarity(wide(states), wide(teacher_states), dim=-1)).sum()


def relation_divergence(projections: Tensor, teacher_projections: Tensor, lengths: Sequence[int],
                        heads: int) -> Tensor:
    """Sum the divergence of relations between the tokens of each document from a teacher's.

    A relation is the softmax over a document's tokens of the scaled products of queries with
    queries, keys with keys, or values with values, for a number of heads of its own. The
    divergence is a mean over heads and a sum over tokens and the three relations.

    Source: Wang et al. 2021 (MiniLMv2), section 3.1.

    Args:
        projections: (tokens, 3, width) queries, keys and values of all heads, documents end to end.
        teacher_projections: (tokens, 3, teacher's width).
        lengths: tokens of each document.
        heads: a divisor of both widths.
    """
    chunks, start = {}, 0
    for length, run in groupby(lengths):
        tokens = length * len(list(run))
        size = length * max(1, _SCORES // (3 * heads * length**2))
        for rows in rows_in_chunks(tokens, size):
            end = start + min(rows.stop, tokens)
            chunks[start + rows.start, end] = length
        start += tokens

    def compute(own: Tensor, rows: slice) -> tuple[Tensor, int]:
        length = chunks[rows.start, rows.stop]
        with torch.autocast(own.device.type, enabled=False):
            summed = teacher_divergence(_relation_scores(own, length, heads),
                                _relation_scores(teacher_projections[rows], length, heads))
        return summed / heads, 0

    return sum_by_chunks(compute, (slice(*rows) for rows in chunks), projections)[0]


def _relation_scores(projections: Tensor, length: int, heads: int) -> Tensor:
    """Compute scaled products, (relations of all documents, heads and tokens, length)."""
    vectors = wide(projections).unflatten(0, (-1, length)).unflatten(-1, (heads, -1))
    vectors = vectors.permute(0, 2, 3, 1, 4)  # (documents, 3, heads, length, head size)
    scores = vectors @ vectors.transpose(-1, -2) / math.sqrt(vectors.shape[-1])
    return scores.flatten(0, -2)
