"""Half-precision copies of linear layers' weights, cast once per step."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable


class _Working(NamedTuple):
    """A weight, its copy, and the parameters, by name, of a module that contains it."""

    weight: nn.Parameter
    copy: Tensor
    parameters: dict[str, Tensor]
    name: str


class WorkingWeights:
    """Copies of linear layers' weights, in the precision of their products.

    Autocast casts each weight in each micro-batch, and each gradient back, one by one. These copies
    are made in one call per step. Gradients still reach the original weights in float32 after each
    micro-batch, so optimizers, clipping and data parallelism work as before.

    Args:
        objective: objective on its device, not sharded.
        dtype: data type of the surrounding autocast.
    """

    def __init__(self, objective: nn.Module, dtype: torch.dtype) -> None:
        # The gradients of an encoder's layer arrive together, while the lower layers are computed.
        # A head is a separate part, because an objective may not use it.
        parts: dict[str, list[_Working]] = defaultdict(list)
        for name, module in objective.named_modules():
            if isinstance(module, nn.Linear):
                layer = re.match(r".*?\.\d+\.", name)
                parts[layer[0] if layer else name] += [
                    _Working(weight, torch.empty_like(weight, dtype=dtype, requires_grad=False),
                             cast("dict[str, Tensor]", module._parameters), kind)
                    for kind, weight in module.named_parameters(recurse=False)
                    if weight.dtype == torch.float32]
        self._parts = [part for part in parts.values() if part]
        self.update()

    @torch.no_grad()
    def update(self) -> None:
        """Cast the weights again."""
        every = [one for part in self._parts for one in part]
        torch._foreach_copy_([one.copy for one in every], [one.weight for one in every])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the modules use the copies in one forward and one backward pass."""
        try:
            for part in self._parts:
                trained = [one for one in part if one.weight.requires_grad]
                linked = _Link.apply([one.copy for one in trained],
                                     *(one.weight for one in trained)) if trained else ()
                for one in part:
                    one.parameters[one.name] = one.copy
                for one, copy in zip(trained, linked, strict=True):
                    one.parameters[one.name] = copy
            yield
        finally:
            for part in self._parts:
                for one in part:
                    one.parameters[one.name] = one.weight


class _Link(torch.autograd.Function):
    """Function that passes the gradients of copies to the weights, in float32."""

    @staticmethod
    def forward(ctx: FunctionCtx, copies: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        """Return the copies as functions of the weights."""
        ctx.set_materialize_grads(False)
        return tuple(copy.detach() for copy in copies)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Cast the gradients of all copies in one call."""
        given = [gradient for gradient in gradients if gradient is not None]
        wide = [torch.empty_like(gradient, dtype=torch.float32) for gradient in given]
        if given:
            torch._foreach_copy_(wide, given)
        found = iter(wide)
        return (None, *(None if gradient is None else next(found) for gradient in gradients))
