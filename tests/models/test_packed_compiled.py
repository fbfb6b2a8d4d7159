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


def graphs_of(family: str, backend: str, dropout: float = 0.0) -> list[int]:
    """Compare compiled layers with the others; count graphs after each batch."""
    plain, compiled = prepared(family, backend, dropout)
    graphs = []
    for lengths in BATCHES:
        found, expected = gradients(compiled, lengths), gradients(plain, lengths)
        for one, other in zip(found, expected, strict=True):
            if dropout:  # other random numbers
                assert one.isfinite().all() and not torch.equal(one, other)
            else:
                torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
        graphs.append(counters["stats"]["unique_graphs"])
    assert not counters["graph_break"]
    return graphs


# ModernBERT's first layer has no norm and no window, so its two layers differ.
@pytest.mark.parametrize(("family", "capability", "graphs"), [
    ("Megatron-BERT", HOPPER, 1),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("BERT", None, 1), ("BERT", HOPPER, 1), ("RoBERTa", HOPPER, 1),
        ("ModernBERT", None, 2), ("ModernBERT", HOPPER, 2)))])
def test_layers_compile_once(family: str, capability: tuple[int, int] | None, graphs: int,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "capability", lambda device: capability)
    with attention_kernels.registered() as calls:
        assert graphs_of(family, "eager") == [graphs] * len(BATCHES)
    assert bool(calls) == (capability is not None)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("capability", [None, HOPPER], ids=["by-length", "kernel"])
def test_gradients_are_traced_too(capability: tuple[int, int] | None, dropout: float,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "capability", lambda device: capability)
    with attention_kernels.registered():
        assert graphs_of("BERT", "aot_eager", dropout) == [1] * len(BATCHES)
