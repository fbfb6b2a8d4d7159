"""Attention over documents that lie end to end in one row and do not see each other."""

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
# rows are short; from here on it is the faster one (two cores with AMX, heads of 32 and 64).
_SHORT_TOKENS = 256


@dataclass(frozen=True)
class DocumentLengths:
    """Where documents lie in a row, and whether each is read forwards only.

    Args:
        lengths: tokens of each document, special tokens included.
        borders: (documents + 1,) int32 on the device of the tokens: where each document begins,
            and where the last one ends.
        causal: each token sees only itself and what stands before it in its document.
    """

    lengths: tuple[int, ...]
    borders: Tensor
    causal: bool

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device, causal: bool = False) -> DocumentLengths:
        """Note the documents of a row; waits for the GPU where `lengths`, (documents,), lie on one.

        Raises:
            ValueError: no documents, or one without tokens.
        """
        sizes = tuple(lengths.tolist())
        if not sizes or min(sizes) < 1:
            raise ValueError(f"lengths of packed documents: found {sizes[:8]}, "
                             "expected at least one, each of 1 token or more")
        borders = torch.tensor([0, *sizes]).cumsum(0).to(device, torch.int32)
        return cls(sizes, borders, causal)

    @property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return sum(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(self.lengths)

    def positions(self) -> Tensor:
        """Count each document's tokens from 0, (tokens,) int64 beside the borders."""
        counted = [torch.arange(length) for length in self.lengths]
        return torch.cat(counted).to(self.borders.device)

    def numbers(self) -> Tensor:
        """Name the document of each token, (tokens,) int64 beside the borders."""
        sizes = torch.tensor(self.lengths)
        return torch.arange(len(sizes)).repeat_interleave(sizes).to(self.borders.device)

    def window(self, reach: int | None) -> tuple[int, int]:
        """How many tokens to its left and right a token sees; -1 for all there are.

        Args:
            reach: tokens seen on either side of a sliding window; None without one.
        """
        side = _UNBOUNDED if reach is None or reach >= self.longest - 1 else reach
        return side, 0 if self.causal else side


def varlen_attention(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                     scale: float,
                     reach: int | None = None, dropout: float = 0.0) -> Tensor:
    """Let each token attend to its own document, with torch's fused kernel where that can.

    Args:
        query, key, value: (tokens, heads, head width), documents end to end.
        documents: where they lie.
        scale: multiplies the scores.
        reach: tokens seen on either side of a sliding window; None without one.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head width).
    """
    window = documents.window(reach)
    if not kernel_fits(query, dropout):
        return attend_by_length(query, key, value, documents.lengths, scale, window, dropout)
    assert _KERNEL is not None
    return _KERNEL(query, key, value, documents.borders, documents.borders, documents.longest,
                   documents.longest, scale=scale, window_size=window)


def attend_by_length(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int],
                     scale: float, window: tuple[int, int], dropout: float = 0.0) -> Tensor:
    """Attend exactly, on any device: neighbours of equal length in one call, without copies.

    Documents sorted by length need the fewest calls. On two cores this beats padding to the
    longest, buckets of like length and masks over blocks of documents.

    Args:
        query, key, value: (tokens, heads, head width), documents end to end.
        lengths: tokens of each document.
        scale: multiplies the scores.
        window: tokens seen to the left and to the right; -1 for all.
        dropout: share of attention weights dropped.

    Returns:
        (tokens, heads, head width).
    """
    runs = [(length, len(list(same))) for length, same in groupby(lengths)]
    mask = _band(max(lengths), window, query.device)
    parts = []
    for asking, asked, told in zip(_split(query, runs), _split(key, runs), _split(value, runs),
                                   strict=True):
        length = asking.shape[2]
        found = in_best_precision(
            scaled_dot_product_attention, asking, asked, told,
            attn_mask=None if mask is None else mask[:length, :length],
            is_causal=window == (_UNBOUNDED, 0), dropout_p=dropout, scale=scale)
        parts.append(found.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts)


def in_best_precision(attention: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor,
                      **more: Any) -> Any:
    """Call an attention function, with float32 numbers where a CPU is slower with halves.

    Args:
        attention: takes the three and `more`; what it returns is cast back by the next layer.
        query, key, value: (rows, heads, tokens, head width).
    """
    halves = query.dtype in (torch.bfloat16, torch.float16)
    if query.device.type != "cpu" or not halves or query.shape[2] > _SHORT_TOKENS:
        return attention(query, key, value, **more)
    with torch.autocast("cpu", enabled=False):
        return attention(query.float(), key.float(), value.float(), **more)


def _split(part: Tensor, runs: list[tuple[int, int]]) -> Iterator[Tensor]:
    """View each run as (documents, heads, length, head width).

    One split for all runs, because the gradient of each slice alone is as large as the whole.
    """
    sizes = [length * count for length, count in runs]
    for (length, count), run in zip(runs, part.split(sizes), strict=True):
        yield run.unflatten(0, (count, length)).transpose(1, 2)


def _band(longest: int, window: tuple[int, int], device: torch.device) -> Tensor | None:
    """Mask all but a sliding window, (longest, longest) bool; None where there is none."""
    left, right = window
    if left == _UNBOUNDED:
        return None
    return torch.ones(longest, longest, dtype=torch.bool, device=device).triu(-left).tril(right)


def kernel_fits(query: Tensor, dropout: float) -> bool:
    """Tell whether torch's kernel takes these: halves, no dropout, a card of Ampere or newer."""
    width = query.shape[-1]
    return (_KERNEL is not None and query.is_cuda and dropout == 0.0
            and query.dtype in (torch.bfloat16, torch.float16) and width % 8 == 0 and width <= 256
            and torch.version.cuda is not None
            and torch.cuda.get_device_capability(query.device) >= (8, 0))


def _find_kernel() -> Callable[..., Any] | None:
    """Look for torch's kernel; releases before the windows came are left out."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    known = inspect.signature(varlen_attn).parameters
    return varlen_attn if {"scale", "window_size"} <= known.keys() else None


_KERNEL = _find_kernel()
