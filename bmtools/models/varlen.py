"""Attention over documents packed end to end in one sequence, none of which sees another.

Two ways are operations of torch, which compiled code sees whole: `bmtools::attend_by_length`, which
has its lengths in a tensor, and `bmtools::efficient_attention`, torch's memory-efficient kernel.
The kernel's own gradient cannot be traced: in torch 2.13 the function that describes it lacks an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from bmtools.models.documents import DocumentLengths, capability

HALF = (torch.bfloat16, torch.float16)
# On a CPU torch's fused attention takes two to six times as long in bfloat16 as in float32 where
# sequences are short; from here on it is the faster one (two cores with AMX, heads of 32 and 64).
_SHORT_TOKENS = 256
_FROM_TOP_LEFT = 1  # the kernel's name of a causal mask
_STEP = 32  # the kernel keeps a multiple of so many logarithms
_PARTS = "Tensor query, Tensor key, Tensor value"
_SAVED = {"attend_by_length": "",
          "efficient_attention": "Tensor output, Tensor logsumexp, Tensor seed, Tensor offset, "}
FLASH, EFFICIENT, BLOCKS = "flash", "efficient", "blocks"
_AMPERE = (8, 0)
_UNBOUNDED = -1
_HEAD_MULTIPLE = 8
# FlashAttention's backward pass takes larger heads on some GPUs only.
_LARGEST_FLASH_HEAD = 192
# The memory-efficient kernel numbers a document's attention weights with 32 bits to draw their
# dropout; beyond, its two passes would drop different ones.
_DROPOUT_NUMBERS = 2**31


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
        weights = (documents.boundaries.shape[0] - 1) * query.shape[1] * documents.longest**2
        kernel = EFFICIENT if weights < _DROPOUT_NUMBERS else ""
    if kernel:
        attend = {FLASH: _attend_flash, EFFICIENT: _attend_efficient,
                  BLOCKS: attend_in_blocks}[kernel]
        return attend(query, key, value, documents, scale, window, dropout)
    if torch.compiler.is_compiling():
        seed = torch.randint(2**31, ()) if dropout else torch.zeros((), dtype=torch.int64)
        output: Tensor = torch.ops.bmtools.attend_by_length(
            query, key, value, documents.lengths, seed, scale, *window, dropout)
        return output
    return attend_by_length(query, key, value, documents.lengths.tolist(), scale, window, dropout)


def choose_kernel(capability: tuple[int, int] | None, dtype: torch.dtype, head_size: int,
                  windowed: bool) -> str:
    """Name the way to attend without a loop over documents; empty where there is none.

    All take dropout. Torch's memory-efficient kernel has no window that looks both ways, and its
    gradient none at all.

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


def loops_over_documents(device: torch.device) -> bool:
    """Tell if a device that should have a kernel has none: a GPU that is not NVIDIA's."""
    return device.type != "cpu" and capability(device) is None


def _attend_flash(query: Tensor, key: Tensor, value: Tensor, documents: DocumentLengths,
                  scale: float, window: tuple[int, int], dropout: float) -> Tensor:
    """Call what `varlen_attn` calls, which has no dropout."""
    boundaries, longest = documents.boundaries, documents.longest
    output = torch.ops.aten._flash_attention_forward(
        _aligned(query), _aligned(key), _aligned(value), boundaries, boundaries, longest, longest,
        dropout, window == (_UNBOUNDED, 0), False, scale=scale,
        window_size_left=window[0], window_size_right=window[1])[0]
    return output.narrow(-1, 0, query.shape[-1])


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
    attend = torch.ops.bmtools.efficient_attention if torch.compiler.is_compiling() \
        else efficient_attention
    output = attend(queries, keys, values, documents.boundaries, documents.longest, dropout,
                    documents.causal, scale)[0]
    return output.squeeze(0).narrow(-1, 0, query.shape[-1]).to(query.dtype)


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


def _attend_by_length(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor, seed: Tensor,
                      scale: float, left: int, right: int, dropout: float) -> Tensor:
    devices = [query.device] if query.is_cuda else []
    with torch.random.fork_rng(devices, enabled=dropout > 0):
        if dropout:
            torch.manual_seed(int(seed))
        return attend_by_length(query, key, value, lengths.tolist(), scale, (left, right),
                                dropout).to(query.dtype)


def _attend_by_length_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor,
                               *options: Any) -> tuple[Tensor, ...]:
    """Attend again, as an operation keeps nothing but tensors that it returns."""
    with torch.enable_grad():
        parts = query, key, value = [part.detach().requires_grad_()
                                     for part in (query, key, value)]
        output = _attend_by_length(query, key, value, *options)
    return torch.autograd.grad(output, parts, gradient)


def efficient_attention(query: Tensor, key: Tensor, value: Tensor, boundaries: Tensor,
                        longest: int, dropout: float, causal: bool,
                        scale: float) -> tuple[Tensor, ...]:
    """Attend with torch's memory-efficient kernel, as nested tensors do.

    Args:
        query, key, value: (1, tokens, heads, head size), documents end to end.
        boundaries: (documents + 1,) int32.
        longest: tokens of the longest document, or more.
        dropout: share of attention weights dropped.
        causal: each token sees only itself and those before it in its document.
        scale: multiplies the scores.

    Returns:
        attended values, shaped as query; then what the gradient needs: logarithms of the sums of
        weights, and seed and offset of the random numbers.
    """
    outputs: tuple[Tensor, ...] = torch.ops.aten._efficient_attention_forward(
        query, key, value, None, boundaries, boundaries, longest, longest, dropout,
        _FROM_TOP_LEFT if causal else 0, True, scale=scale)[:4]
    return outputs


def _efficient_attention_backward(
        gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor,
        logsumexp: Tensor, seed: Tensor, offset: Tensor, boundaries: Tensor, longest: int,
        dropout: float, causal: bool, scale: float) -> tuple[Tensor, ...]:
    gradients: tuple[Tensor, ...] = torch.ops.aten._efficient_attention_backward(
        gradient, query, key, value, None, output, boundaries, boundaries, longest, longest,
        logsumexp, dropout, seed, offset, _FROM_TOP_LEFT if causal else 0, False, scale=scale)[:3]
    return gradients


def _empty(part: Tensor) -> Tensor:
    return torch.empty_like(part, memory_format=torch.contiguous_format)


def _by_length_shape(query: Tensor, *others: object) -> Tensor:
    return _empty(query)


def _efficient_shapes(query: Tensor, key: Tensor, value: Tensor, boundaries: Tensor, longest: int,
                      dropout: float, *others: object) -> tuple[Tensor, ...]:
    shape = (boundaries.shape[0] - 1, query.shape[2], (longest + _STEP - 1) // _STEP * _STEP)
    # The kernel leaves the numbers that it drew on the CPU.
    seed = torch.empty((), dtype=torch.int64, device="cpu" if dropout else query.device)
    return (_empty(query), query.new_empty(shape, dtype=torch.float32), seed,
            torch.empty_like(seed))


def _gradient_shapes(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor,
                     *others: object) -> tuple[Tensor, ...]:
    return _empty(query), _empty(key), _empty(value)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    outputs = () if isinstance(output, Tensor) else output
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors[:3], *outputs, *tensors[3:])
    ctx.options = [value for value in inputs if not isinstance(value, Tensor)]


def _by_length_gradients(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    gradients = torch.ops.bmtools.attend_by_length_backward(
        gradient, *context.saved_tensors, *context.options)
    return (*gradients, *(None,) * 6)


def _efficient_gradients(context: Any, gradient: Tensor,
                         *_others: object) -> tuple[Tensor | None, ...]:
    gradients = torch.ops.bmtools.efficient_attention_backward(
        gradient, *context.saved_tensors, *context.options)
    return (*gradients, *(None,) * 5)


def _register(name: str, options: str, outputs: str, function: Callable[..., object],
              backward: Callable[..., object], shapes: Callable[..., object],
              gradients: Callable[..., object]) -> None:
    """Register an operation with its gradient, by what they compute and the shapes they return."""
    for suffix, signature, compute, describe in (
            ("", f"({_PARTS}, {options}) -> {outputs}", function, shapes),
            ("_backward", f"(Tensor gradient, {_PARTS}, {_SAVED[name]}{options}) -> "
                          "(Tensor, Tensor, Tensor)", backward, _gradient_shapes)):
        torch.library.define(f"bmtools::{name}{suffix}", signature)
        torch.library.impl(f"bmtools::{name}{suffix}", "default", compute)
        torch.library.register_fake(f"bmtools::{name}{suffix}", describe)
    torch.library.register_autograd(f"bmtools::{name}", gradients, setup_context=_keep)


_register("attend_by_length", "Tensor lengths, Tensor seed, float scale, SymInt left, "
          "SymInt right, float dropout", "Tensor", _attend_by_length, _attend_by_length_backward,
          _by_length_shape, _by_length_gradients)
_register("efficient_attention", "Tensor boundaries, SymInt longest, float dropout, bool causal, "
          "float scale", "(Tensor, Tensor, Tensor, Tensor)", efficient_attention,
          _efficient_attention_backward, _efficient_shapes, _efficient_gradients)
