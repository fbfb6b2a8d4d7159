"""Layers over packed documents compile once, whatever their lengths."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import attention_kernels
import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from toy_models import tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.models import documents
from bmtools.models.documents import DocumentLengths
from bmtools.models.packed import encode_packed, prepare_packed
from bmtools.training.layers import encoder_layers
from bmtools.training.loop import set_dropout

# Dynamo looks at the gradient of every input.
pytestmark = [pytest.mark.usefixtures("one_thread"),
              pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")]
HOPPER = (9, 0)
BATCHES = ([5, 1, 1, 12], [20, 3], [7, 7, 7, 7, 7, 7, 2], [38], [4] * 30, [9, 30, 2])


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    counters.clear()


def gradients(model: Any, lengths: list[int], causal: bool = False) -> list[Tensor]:
    """States of documents, and gradients of their squares."""
    ids = torch.arange(sum(lengths)) % 50 + 4
    packed = DocumentLengths.of(torch.tensor(lengths), torch.device("cpu"), multiple=64)
    states = encode_packed(model, ids, packed, causal=causal)
    weights = [weight for name, weight in model.base_model.named_parameters()
               if "pooler" not in name]
    return [states, *torch.autograd.grad(states.square().sum(), weights)]


def prepared(family: str, backend: Any, dropout: float = 0.0) -> tuple[Any, Any]:
    """A model of two layers, and a twin whose layers are compiled as the loop compiles them."""
    torch.manual_seed(0)
    plain = AutoModelForMaskedLM.from_config(tiny_config(family, num_hidden_layers=2))
    set_dropout(plain, dropout)
    prepare_packed(plain.train())
    compiled = copy.deepcopy(plain)
    for layer in encoder_layers(compiled):
        layer.compile(backend=backend, dynamic=True)
    return plain, compiled


# Megatron-BERT's layers have equal structure. ModernBERT's first layer has no norm and no window.
@pytest.mark.parametrize(("family", "dropout"), [
    ("Megatron-BERT", 0.0),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("BERT", 0.0), ("BERT", 0.1), ("RoBERTa", 0.0), ("ModernBERT", 0.0)))])
@pytest.mark.parametrize("capability", [
    None, pytest.param(HOPPER, marks=pytest.mark.slow)], ids=["by-length", "kernel"])
def test_layers_compile_once(family: str, dropout: float, capability: tuple[int, int] | None,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    """States and gradients equal the results of uncompiled layers, for any lengths."""
    monkeypatch.setattr(documents, "capability", lambda device: capability)
    graphs = []
    with attention_kernels.registered() as calls:
        plain, compiled = prepared(family, "aot_eager", dropout)
        for lengths in BATCHES:
            torch.manual_seed(1)
            found = gradients(compiled, lengths)
            torch.manual_seed(1)
            for one, other in zip(found, gradients(plain, lengths), strict=True):
                torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
            graphs.append(counters["stats"]["unique_graphs"])
    assert len({*graphs}) == 1
    assert bool(calls) == (capability is not None and not dropout)
