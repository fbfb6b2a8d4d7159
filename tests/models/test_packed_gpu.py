"""Packed documents on a GPU: torch's kernel against exact attention in float32."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from bmtools.models.mlm import encode
from bmtools.models.packed import encode_packed, prepare_packed, self_check
from bmtools.models.varlen import DocumentLengths, attend_by_length, kernel_fits, varlen_attention

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["both-ways", "causal"])
LENGTHS = torch.tensor([5, 1, 64, 64, 129, 38, 300])


def needs_kernel(query: Tensor) -> None:
    if not kernel_fits(query, 0.0):
        pytest.skip("this GPU or this torch lacks the kernel")


def near(found: Tensor, expected: Tensor, share: float) -> None:
    """Differ by a share of the size at most."""
    assert (found.float() - expected.float()).norm() <= share * expected.float().norm()


@pytest.mark.parametrize("reach", [None, 1, 64])
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16], ids=str)
@CAUSAL
def test_the_kernel_equals_attention_by_length(
        reach: int | None, precision: torch.dtype, causal: bool) -> None:
    documents = DocumentLengths.of(LENGTHS, torch.device("cuda"), causal)
    generator = torch.Generator().manual_seed(0)
    shape = (1, 4, sum(documents.lengths), 64)
    drawn = [torch.randn(shape, generator=generator).to("cuda", precision) for _ in range(4)]
    halves = [part.clone().requires_grad_() for part in drawn[:3]]
    exact = [part.float().requires_grad_() for part in drawn[:3]]
    query, key, value = (part[0].transpose(0, 1) for part in halves)
    needs_kernel(query)
    found = varlen_attention(query, key, value, documents, 0.125, reach)
    query, key, value = (part[0].transpose(0, 1) for part in exact)
    expected = attend_by_length(query, key, value, documents.lengths, 0.125,
                                documents.window(reach))
    near(found, expected, 0.01)
    direction = drawn[3][0].transpose(0, 1)
    (found * direction).sum().backward()
    (expected * direction.float()).sum().backward()
    for half, whole in zip(halves, exact, strict=True):
        assert half.grad is not None and whole.grad is not None
        near(half.grad, whole.grad, 0.02)


def small(model: Any) -> tuple[Tensor, Tensor]:
    """Documents that fit the positions of the tiny models."""
    lengths = torch.tensor([5, 1, 12, 12, 38, 9])
    generator = torch.Generator().manual_seed(1)
    return torch.randint(4, 60, (int(lengths.sum()),), generator=generator), lengths


@CAUSAL
def test_float32_on_the_gpu_equals_the_cpu(model: Any, causal: bool) -> None:
    ids, lengths = small(model)
    ones = [torch.ones(1, n, dtype=torch.bool) for n in lengths.tolist()]
    alone = torch.cat([encode(model, part[None], row, causal)[0] for part, row
                       in zip(ids.split(lengths.tolist()), ones, strict=True)])
    prepare_packed(model)
    found = encode_packed(model.to("cuda"), ids.to("cuda"), lengths, causal=causal)
    torch.testing.assert_close(found.cpu(), alone, atol=1e-4, rtol=0)


@CAUSAL
@pytest.mark.parametrize("precision", [None, torch.bfloat16, torch.float16], ids=str)
def test_self_check_passes_on_the_gpu(
        model: Any, causal: bool, precision: torch.dtype | None) -> None:
    ids, lengths = small(model)
    prepare_packed(model)
    model.to("cuda")
    with torch.autocast("cuda", precision or torch.bfloat16, enabled=precision is not None):
        self_check(model, ids.to("cuda"), lengths, causal=causal)


@CAUSAL
def test_autocast_takes_the_kernel_and_stays_near_float32(
        model: Any, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from bmtools.models import varlen

    needs_kernel(torch.empty(1, 1, 8, dtype=torch.bfloat16, device="cuda"))
    calls: list[Any] = []
    kernel: Any = varlen._KERNEL

    def counted(*arguments: Any, **named: Any) -> Tensor:
        calls.append(named)
        return kernel(*arguments, **named)

    monkeypatch.setattr(varlen, "_KERNEL", counted)
    ids, lengths = small(model)
    exact = copy.deepcopy(model)
    prepare_packed(exact)
    prepare_packed(model)
    expected = encode_packed(exact, ids, lengths, causal=causal)
    model.to("cuda").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.autocast("cuda", torch.bfloat16):
        found = encode_packed(model, ids.to("cuda"), lengths, causal=causal)
    assert len(calls) == model.config.num_hidden_layers
    near(found.detach().cpu(), expected.detach(), 0.03)


def test_attention_dropout_avoids_the_kernel(model: Any) -> None:
    ids, lengths = small(model)
    prepare_packed(model)
    model.to("cuda").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.3
    with torch.autocast("cuda", torch.bfloat16):
        states = encode_packed(model, ids.to("cuda"), lengths)
    states.float().pow(3).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters()
               if weight.grad is not None)
