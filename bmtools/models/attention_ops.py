"""Attention over packed documents as operations of torch, which compiled code sees whole.

`bmtools::attend_by_length` has its lengths in a tensor. `bmtools::efficient_attention` is torch's
memory-efficient kernel, whose own gradient cannot be traced: in torch 2.13 the function that
describes it lacks an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bmtools.models.length_attention import attend_by_length

_FROM_TOP_LEFT = 1  # the kernel's name of a causal mask
_STEP = 32  # the kernel keeps a multiple of so many logarithms
_PARTS = "Tensor query, Tensor key, Tensor value"
_SAVED = {"attend_by_length": "",
          "efficient_attention": "Tensor output, Tensor logsumexp, Tensor seed, Tensor offset, "}


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


def _by_length_shape(query: Tensor, *others: Any) -> Tensor:
    return _empty(query)


def _efficient_shapes(query: Tensor, key: Tensor, value: Tensor, boundaries: Tensor, longest: int,
                      dropout: float, *others: Any) -> tuple[Tensor, ...]:
    shape = (boundaries.shape[0] - 1, query.shape[2], (longest + _STEP - 1) // _STEP * _STEP)
    # The kernel leaves the numbers that it drew on the CPU.
    seed = torch.empty((), dtype=torch.int64, device="cpu" if dropout else query.device)
    return (_empty(query), query.new_empty(shape, dtype=torch.float32), seed,
            torch.empty_like(seed))


def _gradient_shapes(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor,
                     *others: Any) -> tuple[Tensor, ...]:
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
                         *_others: Any) -> tuple[Tensor | None, ...]:
    gradients = torch.ops.bmtools.efficient_attention_backward(
        gradient, *context.saved_tensors, *context.options)
    return (*gradients, *(None,) * 5)


def _register(name: str, options: str, outputs: str, function: Callable[..., Any],
              backward: Callable[..., Any], shapes: Callable[..., Any],
              gradients: Callable[..., Any]) -> None:
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
