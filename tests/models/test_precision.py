"""The precision that a device is fastest at."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bmtools.models import precision
from bmtools.models.precision import choose_precision

CPU = torch.device("cpu")


def config(width: int = 256, kind: str = "bert", **more: Any) -> Any:
    return SimpleNamespace(model_type=kind, hidden_size=width, **more)


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, int]]]:
    """Pretend to measure: `rates(full=185e9, half=812e9)`; returns the measured widths."""

    def pretend(full: float, half: float) -> list[tuple[int, int]]:
        asked: list[tuple[int, int]] = []

        def measure(width: int, inner: int, dtype: torch.dtype) -> float:
            asked.append((width, inner))
            return {torch.float32: full, torch.bfloat16: half}[dtype]

        monkeypatch.setattr(precision, "measure_products", measure)
        return asked

    return pretend


@pytest.mark.parametrize(("full", "half", "chosen"), [
    (185e9, 812e9, "bf16"), (100e9, 160e9, "bf16"), (100e9, 140e9, "no"), (60e9, 20e9, "no")])
def test_a_processor_is_measured(rates: Callable[..., Any], full: float, half: float,
                                 chosen: str) -> None:
    rates(full, half)
    found = choose_precision(config(), CPU)
    assert found.precision == chosen
    assert found.reason == (f"because a core multiplies this model's matrices at {half / 1e9:.0f} "
                            f"GFLOP/s in bf16 here, and at {full / 1e9:.0f} in float32")


@pytest.mark.parametrize(("kind", "width", "device", "reason"), [
    ("bert", 128, "cpu", "because matrices 128 wide gain little from bf16"),
    ("deberta", 768, "cpu", "because transformers computes deberta only in float32"),
    ("deberta", 768, "cuda", "because transformers computes deberta only in float32"),
    ("bert", 768, "mps", "because half precision is untried on mps")])
def test_known_choices_are_not_measured(
        monkeypatch: pytest.MonkeyPatch, kind: str, width: int, device: str, reason: str) -> None:
    monkeypatch.setattr(precision, "measure_products", None)
    found = choose_precision(config(width, kind), torch.device(device))
    assert (found.precision, found.reason) == ("no", reason)


@pytest.mark.parametrize(("name", "capability", "chosen", "reason"), [
    ("NVIDIA H100 80GB HBM3", (9, 0), "bf16", "because NVIDIA H100 80GB HBM3 multiplies bfloat16"),
    ("NVIDIA A10", (8, 6), "bf16", "because NVIDIA A10 multiplies bfloat16"),
    ("Tesla T4", (7, 5), "fp16", "because Tesla T4 multiplies float16, but not bfloat16"),
    ("Tesla V100-SXM2-16GB", (7, 0), "fp16",
     "because Tesla V100-SXM2-16GB multiplies float16, but not bfloat16"),
    ("Tesla P100", (6, 0), "no", "because Tesla P100 has no matrix units for half precision")])
def test_the_capability_of_a_gpu_decides(
        monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int], chosen: str,
        reason: str) -> None:
    """Old cards emulate bfloat16, and by default torch reports this as support."""
    for asked, answer in (
            ("is_available", True), ("current_device", 0), ("get_device_name", name),
            ("get_device_capability", capability),
            ("get_device_properties", SimpleNamespace(major=capability[0]))):
        monkeypatch.setattr(torch.cuda, asked, lambda *_, answer=answer: answer)
    found = choose_precision(config(), torch.device("cuda", 0))
    assert (found.precision, found.reason) == (chosen, reason)


needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="needs torch with oneDNN")


@needs_onednn
@pytest.mark.parametrize("shape", [(7, 6), (3, 5, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_by_onednn_equal_those_of_torch(monkeypatch: pytest.MonkeyPatch,
                                                 shape: tuple[int, ...], bias: bool) -> None:
    monkeypatch.setattr(precision, "prefers_onednn", lambda: True)
    theirs = torch.nn.Linear(6, 4, bias=bias)
    ours = precision.FastLinear(6, 4, bias=bias)
    ours.load_state_dict(theirs.state_dict())
    found = []
    for layer in (ours, theirs):
        states = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        logits = layer(states.flip(0).transpose(0, -2))
        logits.square().sum().backward()
        found.append([logits, states.grad, *(weight.grad for weight in layer.parameters())])
        assert (type(logits.grad_fn).__name__ == "_ProductBackward") == (layer is ours)
    torch.testing.assert_close(*found)


@needs_onednn
def test_other_products_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "prefers_onednn", lambda: True)
    states, weight = torch.ones(2, 3), torch.ones(4, 3)
    assert precision.multiply(states[:0], weight).shape == (0, 4)
    assert precision.multiply(states[0], weight).shape == (4,)
    assert precision.multiply(states.double(), weight.double()).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert precision.multiply(states, weight).dtype == torch.bfloat16


@pytest.mark.parametrize(("processor", "expected"), [
    ("vendor_id: AuthenticAMD\nflags: avx2 avx512f", True),
    ("vendor_id: AuthenticAMD\nflags: avx2", False),
    ("vendor_id: GenuineIntel\nflags: avx2 avx512f", False), ("", False)])
def test_onednn_is_for_processors_that_mkl_does_not_use_fully(
        monkeypatch: pytest.MonkeyPatch, processor: str, expected: bool) -> None:
    monkeypatch.setattr(precision, "read_system", lambda _name: processor)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", None, raising=False)
    precision.prefers_onednn.cache_clear()
    assert precision.prefers_onednn() == expected
    precision.prefers_onednn.cache_clear()
