"""Exact CPU stand-ins for torch's GPU attention kernels, with the same checks of their input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

UNUSED = torch.empty(0)


def visible(boundaries: Tensor, window: tuple[int, int]) -> Tensor:
    """Return which tokens each token can attend to: (tokens, tokens) bool."""
    lengths = boundaries.diff().long()
    document = torch.arange(len(lengths)).repeat_interleave(lengths)
    places = torch.arange(len(document))
    distances = places - places[:, None]
    left, right = window
    seen = document == document[:, None]
    seen &= (left < 0) | (distances >= -left)
    return seen & ((right < 0) | (distances <= right))


def weights(query: Tensor, key: Tensor, seen: Tensor, scale: float) -> Tensor:
    """Attention weights, (heads, tokens, tokens) float64."""
    scores = torch.einsum("qhw,khw->hqk", query.double(), key.double()) * scale
    return scores.masked_fill(~seen, -torch.inf).softmax(-1)


def kept(shape: torch.Size, dropout: float, seed: int) -> Tensor:
    """Return the factors of dropout: 0, or the factor that compensates for dropped weights."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (drawn >= dropout) / (1 - dropout)


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor, scale: float,
           dropout: float = 0.0, seed: int = 0) -> Tensor:
    """Compute attention with a mask over all pairs of tokens."""
    share = weights(query, key, seen, scale)
    return torch.einsum("hqk,khw->qhw", share * kept(share.shape, dropout, seed),
                        value.double()).to(query.dtype).contiguous()


def gradients(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, seen: Tensor,
              scale: float, dropout: float, seed: int) -> tuple[Tensor, ...]:
    """Differentiate `attend` with respect to its first three arguments."""
    share = weights(query, key, seen, scale)
    factor = kept(share.shape, dropout, seed)
    gradient = gradient.double()
    of_value = torch.einsum("hqk,qhw->khw", share * factor, gradient)
    of_share = torch.einsum("qhw,khw->hqk", gradient, value.double()) * factor
    of_scores = share * (of_share - (of_share * share).sum(-1, keepdim=True)) * scale
    of_query = torch.einsum("hqk,khw->qhw", of_scores, key.double())
    of_key = torch.einsum("hqk,qhw->khw", of_scores, query.double())
    return tuple(part.to(query.dtype).contiguous() for part in (of_query, of_key, of_value))


def check(parts: tuple[Tensor, ...], boundaries: tuple[Tensor, Tensor], longest: tuple[int, int],
          halves: bool) -> None:
    """Raise an error for input that the kernels reject, or compute wrongly without an error."""
    lengths = boundaries[0].diff()
    assert boundaries[0].dtype == torch.int32 and boundaries[0].is_contiguous()
    assert torch.equal(*boundaries) and int(lengths.min()) > 0
    # Tokens outside all documents would have NaN gradients.
    assert int(boundaries[0][-1]) == parts[0].shape[-3]
    assert longest[0] == longest[1] and int(lengths.max()) <= longest[0] <= parts[0].shape[-3]
    dtype = parts[0].dtype
    for part in parts:
        assert part.shape == parts[0].shape and part.dtype == dtype
        assert part.stride(-1) == 1 and part.shape[-1] % 8 == 0
        assert all(stride % 8 == 0 for stride in part.stride()[-3:-1])
    assert dtype in (torch.bfloat16, torch.float16) or not halves


def flash_forward(query: Tensor, key: Tensor, value: Tensor, cum_seq_q: Tensor, cum_seq_k: Tensor,
                  max_q: int, max_k: int, dropout_p: float, is_causal: bool,
                  return_debug_mask: bool, scale: float | None = None,
                  window_size_left: int = -1, window_size_right: int = -1,
                  *_others: Any) -> tuple[Tensor, ...]:
    """FlashAttention; the state of its random numbers is a seed."""
    check((query, key, value), (cum_seq_q, cum_seq_k), (max_q, max_k), halves=True)
    assert scale is not None and not return_debug_mask
    window = (window_size_left, 0 if is_causal else window_size_right)
    state = torch.randint(2**31, (2,)).to(torch.uint64)
    output = attend(query, key, value, visible(cum_seq_q, window), scale, dropout_p,
                    int(state[0]))
    return output, torch.zeros(query.shape[1], len(query)), state, UNUSED.clone(), UNUSED.clone()


def flash_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor,
                   logsumexp: Tensor, cum_seq_q: Tensor, cum_seq_k: Tensor, max_q: int, max_k: int,
                   dropout_p: float, is_causal: bool, state: Tensor, _unused: Tensor,
                   scale: float | None = None, window_size_left: int = -1,
                   window_size_right: int = -1) -> tuple[Tensor, ...]:
    """Differentiate `flash_forward`."""
    check((query, key, value), (cum_seq_q, cum_seq_k), (max_q, max_k), halves=True)
    window = (window_size_left, 0 if is_causal else window_size_right)
    assert scale is not None
    return gradients(gradient, query, key, value, visible(cum_seq_q, window), scale, dropout_p,
                     int(state[0]))


def efficient_forward(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None,
                      cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                      max_seqlen_k: int, dropout_p: float, custom_mask_type: int,
                      compute_log_sumexp: bool = False, scale: float | None = None,
                      *_others: Any) -> tuple[Any, ...]:
    """Memory-efficient attention."""
    check((query, key, value), (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k),
          halves=False)
    assert bias is None and compute_log_sumexp and scale is not None and len(query) == 1
    seed, offset = torch.randint(2**31, ()), torch.zeros((), dtype=torch.int64)
    seen = visible(cu_seqlens_q, (-1, 0 if custom_mask_type else -1))
    output = attend(query[0], key[0], value[0], seen, scale, dropout_p, int(seed))[None]
    logsumexp = torch.zeros(len(cu_seqlens_q) - 1, query.shape[2], -(-max_seqlen_q // 32) * 32)
    return output, logsumexp, seed, offset, max_seqlen_q, max_seqlen_k


def efficient_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor,
                       bias: Tensor | None, output: Tensor, cu_seqlens_q: Tensor,
                       cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
                       logsumexp: Tensor, dropout_p: float, seed: Tensor, offset: Tensor,
                       custom_mask_type: int, bias_requires_grad: bool,
                       scale: float | None = None, *_others: Any) -> tuple[Tensor | None, ...]:
    """Differentiate `efficient_forward`."""
    check((query, key, value), (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k),
          halves=False)
    assert scale is not None
    seen = visible(cu_seqlens_q, (-1, 0 if custom_mask_type else -1))
    found = gradients(gradient[0], query[0], key[0], value[0], seen, scale, dropout_p, int(seed))
    return (*(part[None] for part in found), None)


@contextmanager
def registered() -> Iterator[list[str]]:
    """Make torch call the stand-ins for tensors on the CPU; the list collects their names."""
    calls: list[str] = []
    library = torch.library.Library("aten", "IMPL")
    for name, function in (("_flash_attention_forward", flash_forward),
                           ("_flash_attention_backward", flash_backward),
                           ("_efficient_attention_forward", efficient_forward),
                           ("_efficient_attention_backward", efficient_backward)):

        def counted(*arguments: Any, _name: str = name, _function: Any = function,
                    **named: Any) -> Any:
            calls.append(_name)
            return _function(*arguments, **named)

        library.impl(name, counted, "CPU")
    try:
        yield calls
    finally:
        library._destroy()
