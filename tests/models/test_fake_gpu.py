"""Packed passes on a GPU that is not there: shapes, dtypes, devices, operations and waits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from toy_models import tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.models.documents import DocumentLengths
from bmtools.models.packed import prepare_packed
from bmtools.training.loop import set_dropout
from bmtools.training.objectives import MaskedObjective

TURING, AMPERE = (7, 5), (8, 0)


class Operations(TorchDispatchMode):
    """Counts dispatched operations, and records copies between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.copies: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (),
                           named: Any = None) -> Any:
        output = function(*arguments, **(named or {}))
        name = function.__name__
        self.counts[name] += 1
        devices = {value.device for value in (output, *arguments) if isinstance(value, Tensor)}
        if len(devices) > 1 and "copy" in name:
            self.copies.append(name)
        return output


def fake_documents(count: int, length: int, capability: tuple[int, int], device: str,
                   causal: bool = False) -> DocumentLengths:
    """Documents whose boundaries and positions are on a device."""
    return DocumentLengths(
        torch.full((count,), length), torch.empty(count + 1, dtype=torch.int32, device=device),
        torch.empty(count * length, dtype=torch.int64, device=device), length, causal=causal,
        capability=capability)


def operations_of_a_pass(family: str, count: int, dtype: torch.dtype,
                         dropout: float) -> Operations:
    """Run both passes of masked language modelling on packed documents of 16 tokens."""
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(tiny_config(family)).to(dtype)
        prepare_packed(model)
        set_dropout(model, dropout)
        ids, labels = torch.empty(2, 16 * count, dtype=torch.int64)
        masked = torch.empty(count, dtype=torch.int64)
    with Operations() as found:
        sums = MaskedObjective(model.train())(
            input_ids=ids, labels=labels, masked=masked,
            lengths=fake_documents(count, 16, AMPERE, "meta"))
        sums["mlm"].backward()
    for name, weight in model.named_parameters():
        assert "pooler" in name or (weight.grad is not None and weight.grad.dtype == dtype)
    return found


@pytest.mark.parametrize(("dtype", "dropout"), [
    (torch.float32, 0.0), (torch.bfloat16, 0.0), (torch.bfloat16, 0.1)], ids=str)
@pytest.mark.parametrize("family", ["BERT", "RoBERTa", "Megatron-BERT", "ModernBERT"])
def test_a_pass_does_not_wait_or_loop_over_documents(
        family: str, dtype: torch.dtype, dropout: float,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without data refuse `item`, `nonzero` and the like, for which a GPU would wait."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _device: False)
    # The replacement in torch 2.13 does not have the sixth argument.
    described = torch.library.Library("aten", "IMPL")
    described.impl("_efficient_attention_backward", lambda _gradient, query, key, value, *_others,
                   **_named: (*map(torch.empty_like, (query, key, value)), None), "Meta")
    few, many = (operations_of_a_pass(family, count, dtype, dropout) for count in (4, 256))
    assert few.counts == many.counts
    assert not few.copies and not many.copies
    half = dtype == torch.bfloat16
    kernel = "flash" if half else "efficient"
    full = 3 if half or family != "ModernBERT" else 2  # the other layer has a window
    for direction in ("forward", "backward"):
        assert many.counts[f"_{kernel}_attention_{direction}.default"] == full
    described._destroy()


def test_float32_with_dropout_is_attended_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes of torch's memory-efficient kernel drop different weights, given lengths."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _device: False)
    found = operations_of_a_pass("BERT", 4, torch.float32, 0.1)
    assert not any("efficient" in name for name in found.counts)
