"""Attention over documents packed end to end in one sequence, none of which sees another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

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

    @property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return sum(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(self.lengths)

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
        side = _UNBOUNDED if sliding_window is None or sliding_window >= self.longest - 1 \
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
    return _KERNEL(query, key, value, documents.boundaries, documents.boundaries,
                   documents.longest, documents.longest, scale=scale, window_size=window)


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
    mask = _window_mask(max(lengths), window, query.device)
    outputs = []
    for queries, keys, values in zip(_split(query, runs), _split(key, runs), _split(value, runs),
                                     strict=True):
        length = queries.shape[2]
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


def _split(tensor: Tensor, runs: list[tuple[int, int]]) -> Iterator[Tensor]:
    """View each run as (documents, heads, length, head size).

    One split for all runs, because the gradient of each slice alone is as large as the whole.
    """
    sizes = [length * count for length, count in runs]
    for (length, count), run in zip(runs, tensor.split(sizes), strict=True):
        yield run.unflatten(0, (count, length)).transpose(1, 2)


def _window_mask(longest: int, window: tuple[int, int], device: torch.device) -> Tensor | None:
    """Mask all but a sliding window, (longest, longest) bool; None if there is none."""
    left, right = window
    if left == _UNBOUNDED:
        return None
    return torch.ones(longest, longest, dtype=torch.bool, device=device).triu(-left).tril(right)


def kernel_fits(query: Tensor, dropout: float) -> bool:
    """Tell if torch's kernel applies: half precision, no dropout, an Ampere GPU or newer."""
    head_size = query.shape[-1]
    return (_KERNEL is not None and query.is_cuda and dropout == 0.0
            and query.dtype in (torch.bfloat16, torch.float16)
            and head_size % 8 == 0 and head_size <= 256
            and torch.version.cuda is not None
            and torch.cuda.get_device_capability(query.device) >= (8, 0))


def _find_kernel() -> Callable[..., Any] | None:
    """Find torch's kernel; None in releases whose kernel has no sliding window."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    parameters = inspect.signature(varlen_attn).parameters
    return varlen_attn if {"scale", "window_size"} <= parameters.keys() else None


_KERNEL = _find_kernel()
