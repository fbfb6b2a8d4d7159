"""Attention over documents packed end to end in one sequence, none of which sees another."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_KERNEL: Callable[..., Any] | None = None
with contextlib.suppress(ImportError):
    from torch.nn.attention.varlen import varlen_attn

    # The kernel of some releases has no sliding window.
    if {"scale", "window_size"} <= inspect.signature(varlen_attn).parameters.keys():
        _KERNEL = varlen_attn
_UNBOUNDED = -1
# On a CPU torch's fused attention takes two to six times as long in bfloat16 as in float32 where
# sequences are short; from here on it is the faster one (two cores with AMX, heads of 32 and 64).
_SHORT_TOKENS = 256


@dataclass(frozen=True)
class DocumentLengths:
    """Lengths and boundaries of packed documents.

    Args:
        lengths: tokens of each document, special tokens included.
        boundaries: (documents + 1,) int32 on the device of the tokens: the start of each document
            and the end of the last one (FlashAttention's `cu_seqlens`).
        causal: each token sees only itself and those before it in its document.
    """

    lengths: tuple[int, ...]
    boundaries: Tensor
    causal: bool

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device, causal: bool = False) -> DocumentLengths:
        """Read (documents,) lengths; waits for the GPU if they are on one.

        Raises:
            ValueError: no documents, or one without tokens.
        """
        sizes = tuple(lengths.tolist())
        if not sizes or min(sizes) < 1:
            raise ValueError(f"lengths of packed documents: found {sizes[:8]}, "
                             "expected at least one, each of 1 token or more")
        boundaries = torch.tensor([0, *sizes]).cumsum(0).to(device, torch.int32)
        return cls(sizes, boundaries, causal)

    def positions(self) -> Tensor:
        """Count each document's tokens from 0, (tokens,) int64 on the device of the tokens."""
        positions = [torch.arange(length) for length in self.lengths]
        return torch.cat(positions).to(self.boundaries.device)

    def document_ids(self) -> Tensor:
        """Number the document of each token, (tokens,) int64 on the device of the tokens."""
        sizes = torch.tensor(self.lengths)
        return torch.arange(len(sizes)).repeat_interleave(sizes).to(self.boundaries.device)

    def window(self, sliding_window: int | None) -> tuple[int, int]:
        """Tokens that a token sees to its left and right; -1 for all there are.

        Args:
            sliding_window: tokens seen on either side; None for all.
        """
        side = _UNBOUNDED if sliding_window is None or sliding_window >= max(self.lengths) - 1 \
            else sliding_window
        return side, 0 if self.causal else side


def varlen_attention(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float, sliding_window: int | None = None,
                     dropout: float = 0.0) -> Tensor:
    """Let each token attend to its own document, with torch's fused kernel where possible.

    Args:
        query, key, value: (tokens, heads, head size), documents end to end.
        documents: their lengths.
        scale: multiplies the scores.
        sliding_window: tokens seen on either side; None for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head size).
    """
    window = documents.window(sliding_window)
    if not kernel_fits(query, dropout):
        return attend_by_length(query, key, value, documents.lengths, scale, window, dropout)
    assert _KERNEL is not None
    longest = max(documents.lengths)
    return _KERNEL(query, key, value, documents.boundaries, documents.boundaries, longest, longest,
                   scale=scale, window_size=window)


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
    if left != _UNBOUNDED:
        mask = torch.ones(longest, longest, dtype=torch.bool, device=query.device)
        mask = mask.triu(-left).tril(right)
    outputs = []
    for (length, count), run in zip(runs, parts, strict=True):
        queries, keys, values = (part.unflatten(0, (count, length)).transpose(1, 2) for part in run)
        output = in_best_precision(
            scaled_dot_product_attention, queries, keys, values,
            attn_mask=None if mask is None else mask[:length, :length],
            is_causal=window == (_UNBOUNDED, 0), dropout_p=dropout, scale=scale)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)


def in_best_precision(attention: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor,
                      **options: Any) -> Any:
    """Call an attention function, in float32 where a CPU is slower in half precision.

    Args:
        attention: takes the three and `options`; its output is cast back by the next layer.
        query, key, value: (batch, heads, tokens, head size).
    """
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    if query.device.type != "cpu" or not is_half or query.shape[2] > _SHORT_TOKENS:
        return attention(query, key, value, **options)
    with torch.autocast("cpu", enabled=False):
        return attention(query.float(), key.float(), value.float(), **options)


def kernel_fits(query: Tensor, dropout: float) -> bool:
    """Tell if torch's kernel applies: half precision, no dropout, an Ampere GPU or newer."""
    head_size = query.shape[-1]
    return (_KERNEL is not None and query.is_cuda and dropout == 0.0
            and query.dtype in (torch.bfloat16, torch.float16)
            and head_size % 8 == 0 and head_size <= 256
            and torch.version.cuda is not None
            and torch.cuda.get_device_capability(query.device) >= (8, 0))
