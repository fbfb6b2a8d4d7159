"""Packed documents on a GPU: torch's kernels against exact attention in float32."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bmtools.models.documents import DocumentLengths
from bmtools.models.packed import prepare_packed
from bmtools.models.varlen import attend_by_length, varlen_attention
from bmtools.training.layers import encoder_layers
from bmtools.training.loop import set_dropout
from bmtools.training.objectives import MaskedObjective

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["both-ways", "causal"])
PRECISIONS = pytest.mark.parametrize(
    "precision", [torch.bfloat16, torch.float16, torch.float32], ids=str)
LENGTHS = torch.tensor([5, 1, 64, 64, 129, 38, 300])


class Operations(TorchDispatchMode):
    """Counts dispatched operations."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (),
                           named: Any = None) -> Any:
        self.counts[function.__name__] += 1
        return function(*arguments, **(named or {}))


def near(found: Tensor, expected: Tensor, share: float) -> None:
    """Differ by a share of the size at most."""
    assert (found.float() - expected.float()).norm() <= share * expected.float().norm()


def draw(precision: torch.dtype, head_size: int = 64) -> list[Tensor]:
    """Queries, keys, values and a direction, (1, heads, tokens, head size)."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, 4, int(LENGTHS.sum()), head_size)
    return [torch.randn(shape, generator=generator).to("cuda", precision) for _ in range(4)]


def attend(parts: list[Tensor], documents: DocumentLengths, reach: int | None = None,
           dropout: float = 0.0) -> Tensor:
    query, key, value = (part[0].transpose(0, 1) for part in parts)
    return varlen_attention(query, key, value, documents, 0.125, reach, dropout)


@pytest.mark.parametrize("head_size", [64, 20])
@pytest.mark.parametrize("reach", [None, 1, 64])
@PRECISIONS
@CAUSAL
def test_every_kernel_equals_attention_by_length(
        reach: int | None, precision: torch.dtype, causal: bool, head_size: int) -> None:
    documents = DocumentLengths.of(LENGTHS, torch.device("cuda"), causal)
    *drawn, direction = draw(precision, head_size)
    halves = [part.clone().requires_grad_() for part in drawn]
    exact = [part.float().requires_grad_() for part in drawn]
    found = attend(halves, documents, reach)
    query, key, value = (part[0].transpose(0, 1) for part in exact)
    side = -1 if reach is None else reach
    expected = attend_by_length(query, key, value, LENGTHS, 0.125,
                                (side, 0 if causal else side))
    rounding = 1e-3 if precision == torch.float32 else 0.02  # TF32 may be on
    near(found, expected, rounding)
    direction = direction[0].transpose(0, 1)
    (found * direction).sum().backward()
    (expected * direction.float()).sum().backward()
    for half, whole in zip(halves, exact, strict=True):
        assert half.grad is not None and whole.grad is not None
        near(half.grad, whole.grad, rounding)


@pytest.mark.parametrize("reach", [None, 16])
@PRECISIONS
def test_both_passes_drop_the_same_weights(precision: torch.dtype, reach: int | None) -> None:
    """The output is linear in the values: with their gradient as values, it is the squared norm.

    If the passes dropped different weights, the output would be about seven tenths of it.
    """
    documents = DocumentLengths.of(LENGTHS, torch.device("cuda"))
    query, key, value, _ = draw(precision)
    value.requires_grad_()
    weights = torch.randn_like(query[0].transpose(0, 1))
    torch.manual_seed(1)
    loss = (attend([query, key, value], documents, reach, 0.3).float() * weights.float()).sum()
    [gradient] = torch.autograd.grad(loss, value)
    torch.manual_seed(1)
    found = (attend([query, key, gradient], documents, reach, 0.3).float() * weights.float()).sum()
    assert found.item() == pytest.approx(gradient.float().square().sum().item(), rel=0.01)


def small(model: Any) -> tuple[Tensor, Tensor]:
    """Documents that fit the positions of the tiny models."""
    lengths = torch.tensor([5, 1, 12, 12, 38, 9])
    generator = torch.Generator().manual_seed(1)
    return torch.randint(4, 60, (int(lengths.sum()),), generator=generator), lengths


def prepared_pass(model: Any, dropout: float) -> tuple[Any, dict[str, Any]]:
    """An objective on the GPU, and inputs that were moved there."""
    ids, lengths = small(model)
    prepare_packed(model)
    set_dropout(model, dropout)
    objective = MaskedObjective(model.to("cuda").train())
    labels = ids.where(torch.arange(len(ids)) % 7 == 0, torch.tensor(-100))
    prepared = objective.prepare({"input_ids": ids, "labels": labels, "lengths": lengths},
                                 padded=True)
    return objective, {name: value.pin_memory().to(torch.device("cuda"), non_blocking=True)
                       for name, value in prepared.items()}


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("precision", [None, torch.bfloat16], ids=str)
def test_compiled_layers_equal_the_others(
        model: Any, precision: torch.dtype | None, dropout: float) -> None:
    torch._dynamo.reset()
    objective, inputs = prepared_pass(model, dropout)
    twin = MaskedObjective(copy.deepcopy(model))
    for layer in encoder_layers(twin.model):
        layer.compile(dynamic=True)
    gradients = []
    for one in (objective, twin):
        with torch.autocast("cuda", precision or torch.bfloat16, enabled=precision is not None):
            sums = one(**inputs)
        sums["mlm"].backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in one.model.parameters()
                                    if weight.grad is not None]))
    assert gradients[1].isfinite().all()
    if not dropout:  # compiled code draws other numbers
        near(gradients[1], gradients[0], 1e-3 if precision is None else 0.05)
    torch._dynamo.reset()
