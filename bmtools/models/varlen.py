"""Attention over separate documents that are packed end to end in one sequence.

The loop over documents and torch's memory-efficient kernel are not compiled, because lengths differ
from batch to batch, and torch 2.13 cannot trace the kernel's gradient. `torch._disable_dynamo` does
the same as `torch.compiler.disable`, but imports the compiler at the first call. The import takes a
second, and scoring never makes such a call.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import pad, scaled_dot_product_attention

from bmtools.models.documents import DocumentLengths

HALF = (torch.bfloat16, torch.float16)
# In bfloat16 on a CPU, two products and a softmax need a half to two thirds of the time of torch's
# fused attention in either precision (AMD EPYC, heads of size 64). They keep 2 bytes for each
# weight. Longer sequences gain less and use the fused attention.
_LONGEST_PRODUCTS = 512
_FROM_TOP_LEFT = 1  # the kernel's value for a causal mask
FLASH, EFFICIENT, BLOCKS = "flash", "efficient", "blocks"
_AMPERE = (8, 0)
_UNBOUNDED = -1
_HEAD_MULTIPLE = 8
# FlashAttention's backward pass supports larger heads only on some GPUs.
_LARGEST_FLASH_HEAD = 192


def varlen_attention(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float, sliding_window: int | None = None,
                     dropout: float = 0.0) -> Tensor:
    """Let each token attend to its own document, with a fused torch kernel if possible.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        documents: lengths of the documents.
        scale: factor of the scores.
        sliding_window: tokens seen on either side; None for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head size).
    """
    side = _UNBOUNDED if sliding_window is None else sliding_window
    window = (side, 0 if documents.causal else side)
    kernel = choose_kernel(documents.capability, query.dtype, query.shape[-1],
                           sliding_window is not None)
    # The two passes of the efficient kernel would drop different weights: with lengths, torch
    # passes the number of keys only to the backward pass, and the numbering of the weights depends
    # on it (H100, torch 2.11).
    if not kernel or (kernel == EFFICIENT and dropout):
        return attend_by_length(query, key, value, documents.lengths, scale, window, dropout)
    kernels = {FLASH: _attend_flash, EFFICIENT: _attend_efficient, BLOCKS: attend_in_blocks}
    return kernels[kernel](query, key, value, documents, scale, window, dropout)


def choose_kernel(capability: tuple[int, int] | None, dtype: torch.dtype, head_size: int,
                  windowed: bool) -> str:
    """Return the name of a kernel without a loop over documents; empty if there is none.

    All kernels except torch's memory-efficient one support dropout. That one has no window that
    looks both ways, and its gradient does not support any window.

    Args:
        capability: capability of the GPU, from `documents.capability`.
        dtype: type of queries, keys and values.
        head_size: size of each head.
        windowed: whether a sliding window limits attention.
    """
    if capability is None:
        return ""
    if dtype in HALF and capability >= _AMPERE and head_size <= _LARGEST_FLASH_HEAD:
        return FLASH
    return BLOCKS if windowed else EFFICIENT


def _attend_flash(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                  scale: float, window: tuple[int, int], dropout: float) -> Tensor:
    """Call the operation behind `varlen_attn`, which does not support dropout."""
    boundaries, longest = documents.boundaries, documents.longest
    output = torch.ops.aten._flash_attention_forward(
        _aligned(query), _aligned(key), _aligned(value), boundaries, boundaries, longest, longest,
        dropout, window == (_UNBOUNDED, 0), False, scale=scale,
        window_size_left=window[0], window_size_right=window[1])[0]
    return output.narrow(-1, 0, query.shape[-1])


@torch._disable_dynamo
def _attend_efficient(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                      scale: float, window: tuple[int, int], dropout: float) -> Tensor:
    """Call the operation that nested tensors use for float32 and for GPUs before Ampere.

    These GPUs have no bfloat16, so bfloat16 is computed in float32.
    """
    assert documents.capability is not None
    dtype = torch.float32 if query.dtype == torch.bfloat16 and documents.capability < _AMPERE \
        else query.dtype
    queries, keys, values = (_aligned(part.to(dtype)).unsqueeze(0)
                             for part in (query, key, value))
    boundaries, longest = documents.boundaries, documents.longest
    output: Tensor = torch.ops.aten._efficient_attention_forward(
        queries, keys, values, None, boundaries, boundaries, longest, longest, dropout,
        _FROM_TOP_LEFT if documents.causal else 0, True, scale=scale)[0]
    return output.squeeze(0).narrow(-1, 0, query.shape[-1]).to(query.dtype)


@torch._disable_dynamo
def attend_by_length(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor,
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly, on any device, with one call for a run of documents of equal length.

    Documents sorted by length need the fewest calls. On two cores this is faster than padding to
    the longest document, buckets of similar length and masks over blocks of documents.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        lengths: (documents,) on the CPU.
        scale: multiplies the scores.
        window: tokens seen to the left and to the right; -1 for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head size).
    """
    runs = [(length, len(list(group))) for length, group in groupby(lengths.tolist())]
    # Split once for all runs, because the gradient of a single slice is as large as the tensor.
    parts = zip(*(tensor.split([length * count for length, count in runs])
                  for tensor in (query, key, value)), strict=True)
    (left, right), longest, mask = window, int(lengths.max()), None
    if 0 <= left < longest - 1:
        mask = torch.ones(longest, longest, dtype=torch.bool, device=query.device)
        mask = mask.triu(-left).tril(right)
    outputs = []
    for (length, count), run in zip(runs, parts, strict=True):
        queries, keys, values = (part.unflatten(0, (count, length)).transpose(1, 2) for part in run)
        output = attend(queries, keys, values, None if mask is None else mask[:length, :length],
                        dropout, is_causal=mask is None and right == 0, scale=scale)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)


def attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
           dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None) -> Tensor:
    """Compute `scaled_dot_product_attention` with the fastest method on this device.

    The choice follows a fixed rule, not a measurement, so that a resumed run computes the same
    bytes. On a CPU, torch has no fused attention with dropout and keeps several copies of the
    weights. This function rounds the share of weights dropped there to 1/65,536, and a query
    without visible keys may get the mean of all values.

    Args:
        query, key, value: (batch, heads, tokens, head size).
        attn_mask: bool, True for visible keys; broadcast.
        dropout_p: share of attention weights dropped.
        is_causal: let each query see only keys up to its position.
        scale: multiplies the scores.
    """
    is_short = query.dtype == torch.bfloat16 and query.shape[2] <= _LONGEST_PRODUCTS
    if query.device.type != "cpu" or not (is_short or 0 < dropout_p < 1):
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                            scale=scale)
    if is_causal:
        attn_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    scale = query.shape[-1]**-0.5 if scale is None else scale
    weights: Tensor = _Weights.apply(query.contiguous(), key.contiguous(), attn_mask, scale)
    dropped = round(dropout_p * 2**16)
    used = weights * _sample(weights, dropped) if dropped else weights
    return used @ value.contiguous().div(1 - dropped / 2**16)


class _Weights(Function):
    """Weights of attention, from scores in float32.

    The weights and the gradients have the precision of queries and keys.
    """

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(ctx: Any, query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        scores = (query.to(wide) * scale) @ key.to(wide).mT
        if mask is not None:
            scores.masked_fill_(~mask, torch.finfo(wide).min)
        weights = torch.softmax(scores, -1, out=scores).to(query.dtype)
        ctx.save_for_backward(query, key, weights)
        ctx.scale = scale
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, weights = ctx.saved_tensors
        scores = torch._softmax_backward_data(gradients[0], weights, -1, weights.dtype)
        return scores @ key * ctx.scale, scores.mT @ query * ctx.scale, None, None


@torch._disable_dynamo
def _sample(weights: Tensor, dropped: int) -> Tensor:
    """Sample the values that stay, with 16 bits each, in a third of the time of torch's dropout.

    Args:
        weights: weights or other values of any shape, on the CPU.
        dropped: number of values to drop per 2**16 values.
    """
    bits = torch.empty(-(-weights.numel() // 4), dtype=torch.int64).random_(-2**63, None)
    return bits.view(torch.int16)[:weights.numel()].view_as(weights) >= dropped - 2**15


class FastDropout(nn.Dropout):
    """Dropout on a CPU that takes less than half as long as torch; see `_sample`."""

    def forward(self, states: Tensor) -> Tensor:
        """Drop a share of the values in training, rounded to 1/65,536, and scale the others."""
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        if not self.training or not dropped:
            return states
        return states * (_sample(states, dropped) * states.new_tensor(1 / (1 - dropped / 2**16)))


def attend_in_blocks(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly within a sliding window, on any device, in one call.

    A block of queries, as long as the window, sees itself and both neighbouring blocks, except for
    tokens outside the window or in another document.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        documents: their lengths.
        scale: multiplies the scores.
        window: tokens seen to the left and to the right.
        dropout: share of attention weights dropped.
    """
    left, right = window
    size = max(_HEAD_MULTIPLE, left + -left % _HEAD_MULTIPLE)
    tokens = query.shape[0]
    padding = -tokens % size
    # Documents are numbered from 1; padding sees only padding.
    ids = (documents.positions == 0).cumsum(0)
    query_ids = pad(ids, (0, padding)).unflatten(0, (-1, size))
    key_ids = pad(ids, (size, padding + size)).unfold(0, 3 * size, size)
    distances = torch.arange(-size, 2 * size, device=query.device) \
        - torch.arange(size, device=query.device).unsqueeze(1)
    seen = (distances >= -left) & (distances <= right) \
        & (query_ids.unsqueeze(2) == key_ids.unsqueeze(1))
    queries = pad(query, (0, 0, 0, 0, 0, padding)).unflatten(0, (-1, size)).transpose(1, 2)
    keys, values = (pad(part, (0, 0, 0, 0, size, padding + size))
                    .unfold(0, 3 * size, size).transpose(2, 3) for part in (key, value))
    output = scaled_dot_product_attention(queries, keys, values, attn_mask=seen.unsqueeze(1),
                                          dropout_p=dropout, scale=scale)
    return output.transpose(1, 2).flatten(0, 1).narrow(0, 0, tokens)


def _aligned(part: Tensor) -> Tensor:
    """Widen heads with zeros to a size that kernels support."""
    missing = -part.shape[-1] % _HEAD_MULTIPLE
    return pad(part, (0, missing)) if missing else part
