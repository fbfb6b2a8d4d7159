"""Exact attention over packed documents, one call for each run of documents of equal length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

HALF = (torch.bfloat16, torch.float16)
# On a CPU torch's fused attention takes two to six times as long in bfloat16 as in float32 where
# sequences are short; from here on it is the faster one (two cores with AMX, heads of 32 and 64).
_SHORT_TOKENS = 256


def attend_by_length(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int],
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly, on any device: neighbours of equal length in one call, without copies.

    Documents sorted by length need the fewest calls. On two cores this beats padding to the
    longest, buckets of similar length and masks over blocks of documents.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        lengths: tokens of each document.
        scale: multiplies the scores.
        window: tokens seen to the left and to the right; -1 for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head size).
    """
    runs = [(length, len(list(group))) for length, group in groupby(lengths)]
    # One split for all runs, because the gradient of each slice alone is as large as the whole.
    parts = zip(*(tensor.split([length * count for length, count in runs])
                  for tensor in (query, key, value)), strict=True)
    (left, right), longest, mask = window, max(lengths), None
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


def in_best_precision(attention: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor,
                      **options: Any) -> Any:
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
