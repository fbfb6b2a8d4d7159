"""No step of training on packed text waits for the device, whose tensors have no values here.

Padded text still does: transformers asks whether anything is padded, and a teacher's states are
selected by the mask.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from toy_batches import taught_by

from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.recipes.settings import OptimizationConfig, PretrainingConfig
from bmtools.training import loop
from bmtools.training.distill import Teacher
from bmtools.training.loop import Trainer
from bmtools.training.objectives import AdversarialObjective, CausalObjective, MaskedObjective

META = torch.device("meta")
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]
OBJECTIVES = {
    "masked": MaskedObjective, "causal": CausalObjective,
    "masked+nsp": lambda model: MaskedObjective(model, NextSentenceHead(64)),
    "adversarial": lambda model: AdversarialObjective(model, PretrainingConfig(adversarial=1.0)),
    "distilled": lambda model: taught_by(model, model, cosine_weight=1.0),
    "distilled everywhere": lambda model: taught_by(model, model, kl_positions="all")}


class Device:
    """Two processes that share a device without values, which raises if a value is read."""

    device, process_index, num_processes, scaler = META, 0, 2, None
    mixed_precision, is_main_process = "no", True

    def __init__(self) -> None:
        self.reductions = 0

    def prepare(self, objective: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
        return objective, SimpleNamespace(optimizer=optimizer, step=lambda: None,
                                          param_groups=optimizer.param_groups,
                                          zero_grad=optimizer.zero_grad)

    def autocast(self) -> Any:
        return contextlib.nullcontext()

    def no_sync(self, _module: nn.Module) -> Any:
        return contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, weights: Any, norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(weights, norm)

    def reduce(self, values: Tensor, _how: str) -> Tensor:
        self.reductions += 1
        return values.clone()


class NoWaits(TorchDispatchMode):
    """Copies to the device, which wait for it unless they are asked not to."""

    def __torch_dispatch__(self, operation: Any, types: Any, given: Any = (),
                           options: Any = None) -> Any:
        options = options or {}
        if operation is torch.ops.aten._to_copy.default and given[0].device != META \
                and options.get("device") == META:
            assert options.get("non_blocking"), f"a copy of {given[0]}"
        return operation(*given, **options)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_does_not_wait_and_reduces_once(
        model: Any, toy: Any, toy_phase: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    prepare_packed(model)
    monkeypatch.setattr(loop, "make_optimizer", lambda _name, groups, rate, *_: torch.optim.SGD(
        groups, rate))
    monkeypatch.setattr(Trainer, "_figures", lambda *_: list)
    monkeypatch.setattr(Teacher, "_autocast", contextlib.nullcontext)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    device: Any = Device()
    trainer = Trainer(OBJECTIVES[name](model.to(META)).to(META), 3, lambda _number: 1e-3,
                      OptimizationConfig(dropout=0.1), device)
    trainer._skips_on_device = trainer._pads = True
    batches = toy.batches(TEXTS, toy_phase(3, objective=name if name in (
        "masked+nsp", "causal") else "masked"), packed=True, micro_batch_size=1)
    parts = [batches.batch(number, 0, 2) for number in range(2)]
    own = loop._own_counts(parts[0])
    trainer._counted = own[0], own[1].to(META)
    prepare = trainer.objective.active.prepare
    made = [prepare(one, True) for one in parts[0].micro_batches]
    with NoWaits():
        trainer.step(0, type(parts[0])(made, parts[0].counts), lambda: parts[1])
    assert device.reductions == 1
