"""Half-precision copies of weights: cast once per step, with the same bits as autocast."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from torch.utils._python_dispatch import TorchDispatchMode

from bmtools.models.next_sentence import NextSentenceHead
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.distributed import make_accelerator
from bmtools.training.layers import encoder_layers, freeze
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]
MICRO_BATCH = 1


@pytest.fixture(autouse=True)
def _other_precision() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()


class Casts(TorchDispatchMode):
    """Counts the calls that convert float32 to bfloat16, and their tensors, by shape."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.shapes: list[torch.Size] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        outputs = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default and outputs.dtype == torch.bfloat16:
            self.shapes.append(outputs.shape)
        if function is torch.ops.aten._foreach_copy_.default and args[0][0].dtype == torch.bfloat16:
            self.calls += 1
            self.shapes += [one.shape for one in args[0]]
        return outputs


def trainer_of(objective: MaskedObjective, **settings: Any) -> Trainer:
    given = OptimizationConfig(precision="bf16", device="cpu", micro_batch_size=MICRO_BATCH,
                               **settings)
    return Trainer(objective, 3, lambda _number: 1e-3, given, make_accelerator(given))


@pytest.mark.parametrize(("frozen", "settings"), [
    (False, {}), (False, {"activation_checkpointing": True}), (True, {"dropout": 0.1})])
def test_weights_have_the_bits_of_autocast(model: Any, toy: Any, toy_phase: Any, frozen: bool,
                                           settings: dict[str, Any]) -> None:
    batches, found = toy.batches(TEXTS, toy_phase(), micro_batch_size=MICRO_BATCH), []
    for uses_copies in (True, False):
        objective = MaskedObjective(copy.deepcopy(model))
        trainer = trainer_of(objective, **settings)
        assert trainer._working is not None
        if not uses_copies:
            trainer._working = None
        if frozen:
            layer = encoder_layers(objective.model)[0]
            names = {id(weight) for weight in layer.parameters()}
            freeze(objective.model, {name for name, weight in objective.model.named_parameters()
                                     if id(weight) in names})
        losses = [step.losses["loss"] for step in trainer.run(batches)]
        found.append((losses, objective.state_dict()))
    (losses, weights), (expected_losses, expected) = found
    assert losses == expected_losses
    for name, weight in expected.items():
        assert torch.equal(weights[name], weight), name


def test_each_weight_is_cast_once_a_step(model: Any, toy: Any, toy_phase: Any) -> None:
    batches = toy.batches(TEXTS, toy_phase(), micro_batch_size=MICRO_BATCH)
    objective = MaskedObjective(model)
    trainer, batch = trainer_of(objective), batches.batch(0)
    assert len(batch.micro_batches) > 2
    with Casts() as casts:
        trainer.step(0, batch)
    assert casts.calls == 1
    weight = dict(model.named_parameters())["bert.encoder.layer.0.intermediate.dense.weight"]
    same = [one for one in objective.parameters() if one.shape == weight.shape]
    assert casts.shapes.count(weight.shape) == len(same)
    assert all(one.dtype == torch.float32 for one in objective.parameters())


def test_a_head_that_is_not_used_gets_no_gradient(model: Any, toy: Any, toy_phase: Any) -> None:
    objective = MaskedObjective(model, NextSentenceHead(model.config.hidden_size))
    trainer = trainer_of(objective)
    [inputs, *_] = toy.batches(TEXTS, toy_phase()).batch(0).micro_batches
    with trainer.passes():
        objective(**inputs)["mlm"].backward()
    assert {name for name, weight in objective.named_parameters() if weight.grad is None} == {
        name for name, _ in objective.named_parameters() if name.startswith("head.")}
    assert all(weight.grad.dtype == torch.float32 for weight in model.parameters())
