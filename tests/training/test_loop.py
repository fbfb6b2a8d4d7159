"""Training loop: micro-batches add up to their batch; signals request a stop."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.errors import BmtoolsError
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.loop import (
    LoopHooks,
    Trainer,
    set_dropout,
)
from bmtools.training.objectives import MaskedObjective

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = OptimizationConfig()
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


def losses(model: Any, toy: Any, phase: Phase, settings: OptimizationConfig = SETTINGS,
           hooks: LoopHooks | None = None, packed: bool = False) -> list[float]:
    batches = toy.batches(TEXTS, phase, micro_batch_size=settings.micro_batch_size, packed=packed)
    trainer = Trainer(MaskedObjective(copy.deepcopy(model)), 4, lambda _number: 1e-3, settings,
                      Accelerator(cpu=True), hooks)
    return [step.losses["loss"] for step in trainer.run(batches)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_micro_batches_add_up_to_their_batch(model: Any, toy: Any, toy_phase: Any,
                                             size: int) -> None:
    whole = losses(model, toy, toy_phase())
    cut = losses(model, toy, toy_phase(), replace(SETTINGS, micro_batch_size=size))
    assert cut == pytest.approx(whole, rel=1e-5)


def test_a_step_is_adamw_s(model: Any, toy: Any, toy_phase: Any) -> None:
    """One step of the loop against torch's own optimizer on transformers' own loss."""
    twin = copy.deepcopy(model)
    batches = toy.batches(TEXTS, toy_phase())
    settings = OptimizationConfig(weight_decay=0.0, max_grad_norm=1e9)
    trainer = Trainer(MaskedObjective(model), 1, lambda _number: 1e-3, settings,
                      Accelerator(cpu=True))
    [step] = trainer.run(batches)

    [given] = batches.batch(0).micro_batches
    set_dropout(twin, 0.0)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.0)
    loss = twin(input_ids=given["input_ids"], attention_mask=given["attention_mask"].long(),
                labels=given["labels"]).loss
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in twin.parameters() if p.grad is not None])
    optimizer.step()
    assert step.losses["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert step.gradient_norm == pytest.approx(float(norm), rel=1e-4)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_accuracy_is_that_of_masked_tokens(model: Any, toy: Any, toy_phase: Any) -> None:
    batches = toy.batches(TEXTS, toy_phase())
    trainer = Trainer(MaskedObjective(model), 1, lambda _number: 1e-9, SETTINGS,
                      Accelerator(cpu=True))
    [step] = trainer.run(batches)
    [given] = batches.batch(0).micro_batches
    with torch.inference_mode():
        logits = model.eval()(input_ids=given["input_ids"],
                              attention_mask=given["attention_mask"].long()).logits
    masked = given["labels"] >= 0
    right = (logits.argmax(-1) == given["labels"])[masked].float().mean()
    assert step.losses["mlm_accuracy"] == pytest.approx(float(right), abs=1e-6)


def test_dropout_is_set_everywhere_and_repeats_by_step(model: Any, toy: Any,
                                                       toy_phase: Any) -> None:
    settings = replace(SETTINGS, dropout=0.3)
    first, again = (losses(model, toy, toy_phase(), settings) for _ in range(2))
    assert first == again
    assert first != losses(model, toy, toy_phase())
    assert model.config.hidden_dropout_prob == 0.1


def test_weights_of_rate_0_stay(model: Any, toy: Any, toy_phase: Any) -> None:
    name = "bert.encoder.layer.0.output.dense.weight"
    objective = MaskedObjective(copy.deepcopy(model))
    trainer = Trainer(objective, 4, lambda _number: 1e-3, OptimizationConfig(weight_decay=0.0),
                      Accelerator(cpu=True),
                      LoopHooks(lr_scales={name: 0.0}))
    list(trainer.run(toy.batches(TEXTS, toy_phase())))
    before, after = (dict(one.named_parameters()) for one in (model, objective.model))
    assert torch.equal(before[name], after[name])
    other = name.replace("layer.0", "layer.1")
    assert not torch.equal(before[other], after[other])


def test_gradients_can_be_adjusted_before_they_are_clipped(model: Any, toy: Any,
                                                           toy_phase: Any) -> None:
    seen = []
    losses(model, toy, toy_phase(), hooks=LoopHooks(adjust_gradients=seen.append))
    assert seen == [1.0] * 4


def test_a_loss_that_is_no_number_stops_the_run(model: Any, toy: Any, toy_phase: Any) -> None:
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight.fill_(float("nan"))
    with pytest.raises(BmtoolsError, match="step 1: the loss is nan"):
        losses(model, toy, toy_phase())


def test_packed_sequences_train_too(model: Any, toy: Any, toy_phase: Any) -> None:
    from bmtools.models.packed import prepare_packed

    prepare_packed(model)
    whole = losses(model, toy, toy_phase(), packed=True)
    cut = losses(model, toy, toy_phase(), replace(SETTINGS, micro_batch_size=1), packed=True)
    assert whole[-1] < whole[0]
    assert cut == pytest.approx(whole, rel=1e-5)
