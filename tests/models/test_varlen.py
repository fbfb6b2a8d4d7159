"""Attention over packed documents on GPUs: the ways to compute it, with exact replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import attention_kernels
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bmtools.models.documents import DocumentLengths
from bmtools.models.memory import MemoryTracker
from bmtools.models.varlen import (
    BLOCKS,
    EFFICIENT,
    FLASH,
    FastDropout,
    attend,
    attend_by_length,
    varlen_attention,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TURING, AMPERE, HOPPER = (7, 5), (8, 0), (9, 0)
LENGTHS = torch.tensor([7, 7, 1, 13, 2, 2, 2, 60])
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["both-ways", "causal"])
WAYS = pytest.mark.parametrize(("capability", "dtype", "reach", "way"), [
    (HOPPER, torch.bfloat16, None, FLASH), (AMPERE, torch.float16, None, FLASH),
    (AMPERE, torch.bfloat16, 3, FLASH), (HOPPER, torch.float16, 100, FLASH),
    (HOPPER, torch.float32, None, EFFICIENT), (TURING, torch.float16, None, EFFICIENT),
    (TURING, torch.bfloat16, None, EFFICIENT), (TURING, torch.float32, None, EFFICIENT),
    (HOPPER, torch.float32, 3, BLOCKS), (TURING, torch.float16, 8, BLOCKS),
    (TURING, torch.float32, 100, BLOCKS)])


@pytest.fixture
def kernels() -> Iterator[list[str]]:
    """Call replacements of torch's kernels, and collect their names."""
    with attention_kernels.registered() as calls:
        yield calls


def documents_on(capability: tuple[int, int] | None, causal: bool = False,
                 multiple: int = 1) -> DocumentLengths:
    """Documents on the CPU that say they are on a GPU."""
    documents = DocumentLengths.of(LENGTHS, causal=causal, multiple=multiple)
    return replace(documents, capability=capability)


def draw(tokens: int, head_size: int, dtype: torch.dtype) -> list[Tensor]:
    """Queries, keys, values and a direction, (tokens, 2, head size)."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(tokens, 2, head_size, generator=generator).to(dtype) for _ in range(4)]


def with_gradients(parts: list[Tensor], output: Tensor, direction: Tensor) -> list[Tensor]:
    """The output, and its gradients along a direction."""
    return [output, *torch.autograd.grad((output.float() * direction.float()).sum(), parts)]


@WAYS
@CAUSAL
@pytest.mark.parametrize("head_size", [16, 12])
def test_every_kernel_choice_equals_attention_by_length(
        capability: tuple[int, int], dtype: torch.dtype, reach: int | None, way: str,
        causal: bool, head_size: int, kernels: list[str]) -> None:
    documents = documents_on(capability, causal, multiple=64)
    *drawn, direction = draw(documents.tokens, head_size, dtype)
    text = slice(documents.tokens - documents.padding)
    direction[text.stop:] = 0  # what becomes of padding does not matter
    halves = [part.clone().requires_grad_() for part in drawn]
    found = with_gradients(halves, varlen_attention(*halves, documents, 0.3, reach), direction)
    exact = [part.float().requires_grad_() for part in drawn]
    side = -1 if reach is None else reach
    expected = with_gradients(exact, attend_by_length(
        *exact, documents.lengths, 0.3, (side, 0 if causal else side)), direction)
    rounding = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype and one.shape == drawn[0].shape
        torch.testing.assert_close(one[text].float(), other[text], atol=rounding, rtol=rounding)
    assert kernels == ([] if way == BLOCKS else
                       [f"_{way}_attention_forward", f"_{way}_attention_backward"])


@pytest.mark.parametrize("reach", [None, 3])
def test_both_passes_drop_the_same_weights(reach: int | None, kernels: list[str]) -> None:
    documents, dtype = documents_on(AMPERE), torch.bfloat16
    *drawn, direction = draw(documents.tokens, 16, dtype)
    ours = [part.clone().requires_grad_() for part in drawn]
    torch.manual_seed(5)
    found = with_gradients(ours, varlen_attention(*ours, documents, 0.3, reach, 0.4), direction)
    torch.manual_seed(5)
    seed = int(torch.randint(2**31, (2,))[0])
    exact = [part.double().requires_grad_() for part in drawn]
    side = -1 if reach is None else reach
    expected = with_gradients(exact, attention_kernels.attend(
        *exact, attention_kernels.visible(documents.boundaries, (side, side)), 0.3, 0.4, seed),
        direction)
    for one, other in zip(found, expected, strict=True):
        size = float(other.detach().norm())
        assert float((one.double() - other).detach().norm()) <= 2e-2 * size
    assert len(kernels) == 2


@pytest.mark.parametrize(("capability", "dtype"), [
    (AMPERE, torch.float32), (TURING, torch.float32), (TURING, torch.float16)])
def test_dropout_that_would_differ_between_passes_avoids_the_kernel(
        capability: tuple[int, int], dtype: torch.dtype, kernels: list[str]) -> None:
    documents = documents_on(capability)
    *parts, _ = draw(documents.tokens, 8, dtype)
    varlen_attention(*parts, documents, 0.3, dropout=0.1)
    assert kernels == []
    varlen_attention(*parts, documents, 0.3)
    assert kernels == ["_efficient_attention_forward"]


def test_documents_by_hand() -> None:
    documents = DocumentLengths.of(torch.tensor([2, 1, 3]))
    assert documents.positions.tolist() == [0, 1, 0, 0, 1, 2]
    assert documents.document_ids().tolist() == [0, 0, 1, 2, 2, 2]
    assert documents.boundaries.tolist() == [0, 2, 3, 6]
    assert documents.boundaries.dtype == torch.int32
    assert documents.starts.tolist() == [0, 2, 3]
    assert (documents.longest, documents.padding, documents.tokens) == (3, 0, 6)


def test_padding_is_a_separate_document() -> None:
    documents = DocumentLengths.of(torch.tensor([2, 1, 3]), multiple=4)
    assert documents.positions.tolist() == [0, 1, 0, 0, 1, 2, 0, 0]
    assert documents.boundaries.tolist() == [0, 2, 3, 6, 8]
    assert documents.starts.tolist() == [0, 2, 3]
    assert documents.unpadded.tolist() == [2, 1, 3]
    assert (documents.longest, documents.padding, documents.tokens) == (4, 2, 8)
    assert DocumentLengths.of(torch.tensor([3, 5]), multiple=4).padding == 0
    assert DocumentLengths.of(torch.tensor([2]), multiple=64).longest == 64


def attend_with_gradients(attention: Callable[..., Tensor], parts: list[Tensor], direction: Tensor,
                          **options: Any) -> list[Tensor]:
    leaves = [part.detach().requires_grad_() for part in parts]
    return with_gradients(leaves, attention(*leaves, **options), direction)


@pytest.mark.parametrize(("tokens", "head_size"), [(64, 32), (128, 64), (256, 64), (512, 32)])
@pytest.mark.parametrize("seen", ["all", "padding", "window", "causal"])
def test_bfloat16_on_a_cpu_is_close_to_float32(tokens: int, head_size: int, seen: str) -> None:
    generator = torch.Generator().manual_seed(0)
    *parts, direction = (torch.randn(2, 3, tokens, head_size, generator=generator).bfloat16()
                         for _ in range(4))
    distances = (torch.arange(tokens)[:, None] - torch.arange(tokens)).abs()
    lengths = torch.tensor([tokens, tokens // 3]).view(2, 1, 1, 1)
    mask = {"padding": torch.arange(tokens) < lengths, "window": distances <= 16}.get(seen)
    options = {"attn_mask": mask, "is_causal": seen == "causal", "scale": 0.3}
    exact = attend_with_gradients(scaled_dot_product_attention, [part.float() for part in parts],
                                  direction, **options)
    for found, fused, expected in zip(
            attend_with_gradients(attend, parts, direction, **options),
            attend_with_gradients(scaled_dot_product_attention, parts, direction, **options), exact,
            strict=True):
        assert found.dtype == torch.bfloat16
        rounding = (fused.float() - expected).norm()
        assert (found.float() - expected).norm() < 3 * rounding < 2e-2 * expected.norm()


def test_a_query_without_visible_keys_is_finite() -> None:
    *parts, direction = (torch.randn(1, 2, 8, 16).bfloat16() for _ in range(4))
    mask = torch.ones(8, 8, dtype=torch.bool)
    mask[3:5] = False
    found = attend_with_gradients(attend, parts, direction, attn_mask=mask)
    assert all(one.isfinite().all() for one in found)
    expected = scaled_dot_product_attention(*(part.float() for part in parts), mask)
    seen = mask.any(1)
    torch.testing.assert_close(found[0].float()[..., seen, :], expected[..., seen, :],
                               atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_on_a_cpu_drops_its_share_of_weights(dtype: torch.dtype, dropout: float) -> None:
    tokens = 256
    query = torch.zeros(4, 2, tokens, tokens, dtype=dtype)  # so each weight is 1 / tokens
    value = torch.eye(tokens, dtype=dtype).expand_as(query)
    torch.manual_seed(3)
    weights = attend(query, query, value, dropout_p=dropout) * tokens
    torch.manual_seed(3)
    assert torch.equal(attend(query, query, value, dropout_p=dropout) * tokens, weights)
    kept = weights > 0
    torch.testing.assert_close(weights[kept].float(), torch.full((int(kept.sum()),),
                               1 / (1 - dropout)), atol=0, rtol=4e-3)
    deviation = (dropout * (1 - dropout) / weights.numel())**0.5
    assert abs(float((~kept).double().mean()) - dropout) < 5 * deviation
    # Neighbours, which share 64 random bits, are dropped independently of each other.
    both = (~kept[..., :-1] & ~kept[..., 1:]).double().mean()
    assert abs(float(both) - dropout**2) < 10 * deviation


def test_gradients_on_a_cpu_drop_the_same_weights() -> None:
    parts = [torch.randn(1, 1, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def attend_again(*again: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend(*again, dropout_p=0.3)

    assert torch.autograd.gradcheck(attend_again, parts)


@pytest.mark.parametrize(("dtype", "dropout"), [(torch.bfloat16, 0.0), (torch.bfloat16, 0.1),
                                                (torch.float32, 0.1)])
def test_attention_on_a_cpu_needs_little_memory(dtype: torch.dtype, dropout: float) -> None:
    """torch's own computes in float32, and with dropout keeps three copies of the weights."""
    parts = [torch.randn(2, 4, 256, 32, dtype=dtype) for _ in range(4)]
    peaks = []
    for attention in (attend, scaled_dot_product_attention):
        with MemoryTracker() as tracker:
            attend_with_gradients(attention, parts[:3], parts[3], dropout_p=dropout)
        peaks.append(tracker.peak)
    weight_bytes = 2 * 4 * 256 * 256 * dtype.itemsize
    assert peaks[0] < (5 if dropout else 4) * weight_bytes
    assert not dropout or peaks[0] < peaks[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fast_dropout_drops_its_share_and_gradients_drop_the_same(dtype: torch.dtype) -> None:
    dropout, states = FastDropout(0.1), torch.ones(3, 333, 111, dtype=dtype, requires_grad=True)
    found = dropout(states)
    found.backward(torch.full_like(found, 2.0))
    kept = found > 0
    assert found.dtype == dtype
    torch.testing.assert_close(found[kept].float().unique(), torch.tensor([1 / 0.9]), atol=0,
                               rtol=4e-3)
    assert float((~kept).double().mean()) == pytest.approx(0.1, abs=5e-3)
    assert torch.equal(states.grad, 2 * found)
    assert dropout.eval()(states) is states
    assert FastDropout(0.0)(states) is states
