"""Training loop: micro-batches add up to their batch; signals request a stop."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.errors import BmtoolsError
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training import loop
from bmtools.training.loop import LoopHooks, Trainer, dropout_seed, set_dropout
from bmtools.training.metrics import DivergedError
from bmtools.training.objectives import MaskedObjective

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = OptimizationConfig()
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


def losses(model: Any, toy: Any, phase: Phase, settings: OptimizationConfig = SETTINGS,
           ) -> list[float]:
    batches = toy.batches(TEXTS, phase, micro_batch_size=settings.micro_batch_size)
    trainer = Trainer(MaskedObjective(copy.deepcopy(model)), 4, lambda _number: 1e-3, settings,
                      Accelerator(cpu=True))
    return [step.losses["loss"] for step in trainer.run(batches)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_micro_batches_add_up_to_their_batch(model: Any, toy: Any, toy_phase: Any,
                                             size: int) -> None:
    whole = losses(model, toy, toy_phase())
    cut = losses(model, toy, toy_phase(), replace(SETTINGS, micro_batch_size=size))
    assert cut == pytest.approx(whole, rel=1e-5)


def test_a_step_equals_adamw(model: Any, toy: Any, toy_phase: Any) -> None:
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
    assert step.figures().gradient_norm == pytest.approx(float(norm), rel=1e-4)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_dropout_is_set_everywhere_and_repeats_by_step(model: Any, toy: Any,
                                                       toy_phase: Any) -> None:
    settings = replace(SETTINGS, dropout=0.3)
    first, again = (losses(model, toy, toy_phase(), settings) for _ in range(2))
    assert first == again
    assert first != losses(model, toy, toy_phase())
    assert model.config.hidden_dropout_prob == 0.1


@pytest.mark.parametrize("bits", [64, 32])
def test_every_pass_has_different_dropout(bits: int) -> None:
    """Of 8 runs with 100 steps of 2,500 micro-batches; a processor reads 32 bits of a seed."""
    seeds = {dropout_seed(seed, number, 100, part) % 2**bits
             for seed in range(8) for number in range(100) for part in range(2500)}
    assert len(seeds) == 8 * 100 * 2500


def test_each_pass_has_its_own_seed(model: Any, toy: Any, toy_phase: Any,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    losses(model, toy, toy_phase(), replace(SETTINGS, micro_batch_size=1))
    assert len({*seeds}) == len(seeds) == 4 * 4
    first = [*seeds]
    losses(model, toy, toy_phase(), replace(SETTINGS, micro_batch_size=1, seed=1))
    assert not {*first} & {*seeds[len(first):]}


def test_a_nan_loss_stops_the_run(model: Any, toy: Any, toy_phase: Any) -> None:
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight.fill_(float("nan"))
    with pytest.raises(BmtoolsError, match="step 1: the loss is nan"):
        losses(model, toy, toy_phase())


def test_a_loss_scaler_skips_a_nan_gradient(model: Any, toy: Any,
                                            toy_phase: Any) -> None:
    """As in fp16: some gradients overflow until the scale fits."""
    accelerator, steps = Accelerator(cpu=True), itertools.count(1)
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def poison(_scale: float) -> None:
        if next(steps) == 2:
            next(trainer.objective.parameters()).grad.view(-1)[0] = float("nan")

    trainer = Trainer(MaskedObjective(model), 4, lambda _number: 1e-3, SETTINGS, accelerator,
                      LoopHooks(adjust_gradients=poison))
    found, states = [], []
    for step in trainer.run(toy.batches(TEXTS, toy_phase())):
        found.append(step)
        states.append(copy.deepcopy(model.state_dict()))
    assert [step.number for step in found] == [1, 2, 3, 4]
    assert found[1].figures().gradient_norm == 0.0 < found[0].figures().gradient_norm
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(states[0][name], states[1][name])
    assert not torch.equal(states[1][name], states[2][name])
    assert accelerator.scaler.get_scale() == 4.0


def test_nan_weights_are_rejected(model: Any) -> None:
    trainer = Trainer(MaskedObjective(model), 4, lambda _number: 1e-3, SETTINGS,
                      Accelerator(cpu=True))
    trainer.require_finite_weights()
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight[3] = float("inf")
    with pytest.raises(DivergedError, match="a weight is not finite; lower learning_rate"):
        trainer.require_finite_weights()


class WaitsForNothing(Trainer):
    """A trainer that works as on a GPU: an update begins before its results are read."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._skips_on_device = True


def test_reading_results_a_step_late_does_not_change_training(model: Any, toy: Any,
                                                              toy_phase: Any) -> None:
    found = []
    for kind in (Trainer, WaitsForNothing):
        trained = copy.deepcopy(model)
        trainer = kind(MaskedObjective(trained), 4, lambda _number: 1e-3, SETTINGS,
                       Accelerator(cpu=True))
        steps = [step.figures() for step in trainer.run(toy.batches(TEXTS, toy_phase()))]
        found.append((steps, trained.state_dict()))
    (expected, weights), (late, same) = found
    assert late == expected
    assert all(torch.equal(same[name], weight) for name, weight in weights.items())


def test_a_nan_update_is_skipped_if_results_are_read_late(
        model: Any, toy: Any, toy_phase: Any) -> None:
    hooks = LoopHooks(adjust_gradients=lambda _scale: next(model.parameters()).grad.fill_(
        float("nan")))
    trainer = WaitsForNothing(MaskedObjective(model), 4, lambda _number: 1e-3, SETTINGS,
                              Accelerator(cpu=True), hooks)
    before = copy.deepcopy(model.state_dict())
    steps = trainer.run(toy.batches(TEXTS, toy_phase()))
    next(steps)
    with pytest.raises(DivergedError, match="step 1: the norm of the gradients is nan"):
        next(steps)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


class Poisoned:
    """Batches; one of them has random tokens, as from a damaged shard."""

    def __init__(self, batches: Any, number: int) -> None:
        self._batches, self._number = batches, number

    def batch(self, number: int, rank: int, world_size: int) -> Any:
        batch = self._batches.batch(number, rank, world_size)
        if number == self._number:
            rng = torch.Generator().manual_seed(1)
            for one in batch.micro_batches:
                for name in ("input_ids", "labels"):
                    noise = torch.randint(5, 60, one[name].shape, generator=rng)
                    one[name] = one[name].where(one[name] < 5, noise)
        return batch


@pytest.mark.parametrize(("kind", "size"), [(Trainer, 0), (Trainer, 2), (WaitsForNothing, 2)])
def test_an_update_from_random_tokens_is_skipped(
        model: Any, toy: Any, toy_phase: Any, monkeypatch: pytest.MonkeyPatch, kind: Any,
        size: int) -> None:
    monkeypatch.setattr(loop, "_LEAST_RECENT", 20)
    number, found = 40, []
    for deviations in (0.0, 4.0):
        trained = copy.deepcopy(model)
        trainer = kind(MaskedObjective(trained), 50, lambda _number: 3e-3, SETTINGS,
                       Accelerator(cpu=True), LoopHooks(skip_spikes=deviations))
        batches: Any = Poisoned(toy.batches(TEXTS, toy_phase(steps=50), micro_batch_size=size),
                                number)
        steps, states = [], []
        for step in trainer.run(batches):
            steps.append(step)
            states.append(copy.deepcopy(trained.state_dict()))
        found.append(([step.figures() for step in steps], states))
    (plain, changed), (figures, kept) = found
    losses = [one.losses["loss"] for one in figures]
    assert losses[number] > 1.5 * max(losses[number - 20:number])
    assert [one.skipped for one in figures] == [one == number for one in range(50)]
    assert plain[:number] == figures[:number]
    assert same(kept[number - 1], kept[number]) and not same(kept[number], kept[number + 1])
    assert not same(changed[number - 1], changed[number])
    assert len(trainer.recent) == 50


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(other[name], weight) for name, weight in one.items())
