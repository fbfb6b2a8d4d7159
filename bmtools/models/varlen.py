"""Attention over documents packed end to end in one sequence, none of which sees another.

Compiled code calls the loop over documents and torch's memory-efficient kernel as they are: the
lengths differ from batch to batch, and in torch 2.13 the kernel's own gradient cannot be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from bmtools.models.documents import DocumentLengths

HALF = (torch.bfloat16, torch.float16)
# On a CPU torch's fused attention takes two to six times as long in bfloat16 as in float32 where
# sequences are short; from here on it is the faster one (two cores with AMX, heads of 32 and 64).
_SHORT_TOKENS = 256
_FROM_TOP_LEFT = 1  # the kernel's name of a causal mask
FLASH, EFFICIENT, BLOCKS = "flash", "efficient", "blocks"
_AMPERE = (8, 0)
_UNBOUNDED = -1
_HEAD_MULTIPLE = 8
# FlashAttention's backward pass takes larger heads on some GPUs only.
_LARGEST_FLASH_HEAD = 192


def varlen_attention(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float, sliding_window: int | None = None,
                     dropout: float = 0.0) -> Tensor:
    """Let each token attend to its own document, with a fused kernel of torch where possible.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        documents: their lengths.
        scale: multiplies the scores.
        sliding_window: tokens seen on either side; None for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head size).
    """
    side = _UNBOUNDED if sliding_window is None else sliding_window
    window = (side, 0 if documents.causal else side)
    kernel = choose_kernel(documents.capability, query.dtype, query.shape[-1],
                           sliding_window is not None)
    if kernel == EFFICIENT and dropout:
        # Its two passes would drop different weights: given lengths, torch tells only the backward
        # pass how many keys there are, and the numbers of the weights depend on it (H100, torch
        # 2.11).
        kernel = ""
    if kernel:
        attend = {FLASH: _attend_flash, EFFICIENT: _attend_efficient,
                  BLOCKS: attend_in_blocks}[kernel]
        return attend(query, key, value, documents, scale, window, dropout)
    return attend_by_length(query, key, value, documents.lengths, scale, window, dropout)


def choose_kernel(capability: tuple[int, int] | None, dtype: torch.dtype, head_size: int,
                  windowed: bool) -> str:
    """Name the way to attend without a loop over documents; empty where there is none.

    All but torch's memory-efficient kernel take dropout. It has no window that looks both ways, and
    its gradient none at all.

    Args:
        capability: of the GPU, as `documents.capability` returns it.
        dtype: of queries, keys and values.
        head_size: of each.
        windowed: a sliding window limits what tokens see.
    """
    if capability is None:
        return ""
    if dtype in HALF and capability >= _AMPERE and head_size <= _LARGEST_FLASH_HEAD:
        return FLASH
    return BLOCKS if windowed else EFFICIENT


def _attend_flash(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                  scale: float, window: tuple[int, int], dropout: float) -> Tensor:
    """Call what `varlen_attn` calls, which has no dropout."""
    boundaries, longest = documents.boundaries, documents.longest
    output = torch.ops.aten._flash_attention_forward(
        _aligned(query), _aligned(key), _aligned(value), boundaries, boundaries, longest, longest,
        dropout, window == (_UNBOUNDED, 0), False, scale=scale,
        window_size_left=window[0], window_size_right=window[1])[0]
    return output.narrow(-1, 0, query.shape[-1])


@torch.compiler.disable
def _attend_efficient(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                      scale: float, window: tuple[int, int], dropout: float) -> Tensor:
    """Call what nested tensors call for float32 and for GPUs before Ampere.

    Those have no bfloat16, which is computed in float32 there.
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


@torch.compiler.disable
def attend_by_length(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor,
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly, on any device: neighbours of equal length in one call, without copies.

    Documents sorted by length need the fewest calls. On two cores this beats padding to the
    longest, buckets of similar length and masks over blocks of documents.

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
    # One split for all runs, because the gradient of each slice alone is as large as the whole.
    parts = zip(*(tensor.split([length * count for length, count in runs])
                  for tensor in (query, key, value)), strict=True)
    (left, right), longest, mask = window, int(lengths.max()), None
    if left >= longest - 1:
        left = -1
    if left >= 0:
        mask = torch.ones(longest, longest, dtype=torch.bool, device=query.device)
        mask = mask.triu(-left).tril(right)
    outputs = []
    for (length, count), run in zip(runs, parts, strict=True):
        queries, keys, values = (part.unflatten(0, (count, length)).transpose(1, 2) for part in run)
        output = in_best_precision(
            scaled_dot_product_attention, queries, keys, values,
            attn_mask=None if mask is None else mask[:length, :length],
            is_causal=mask is None and right == 0, dropout_p=dropout, scale=scale)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)


def in_best_precision(attention: Callable[..., object], query: Tensor, key: Tensor, value: Tensor,
                      **options: object) -> Any:
    """Call an attention function, in float32 where a CPU is slower in half precision.

    Args:
        attention: takes the three and `options`; its output is cast back by the next layer.
        query, key, value: (batch, heads, tokens, head size).
    """
    is_half = query.dtype in HALF
    if query.device.type != "cpu" or not is_half or query.shape[2] > _SHORT_TOKENS:
        return attention(query, key, value, **options)
    with torch.autocast("cpu", enabled=False):
        return attention(query.float(), key.float(), value.float(), **options)


def attend_in_blocks(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly within a sliding window, on any device, in one call.

    A block of queries, as long as the window, sees itself and both of its neighbours, less what
    lies outside of the window or in another document.

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
    # Documents from 1; padding sees padding alone.
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
    """Widen heads with zeros to a size that kernels take."""
    missing = -part.shape[-1] % _HEAD_MULTIPLE
    return pad(part, (0, missing)) if missing else part
