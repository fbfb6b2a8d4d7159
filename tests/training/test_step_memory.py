"""Memory of a phase: what is measured, and that measuring leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.models.packed import prepare_packed
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import (
    AdversarialConfig,
    BatchConfig,
    ObjectiveConfig,
    OptimizationConfig,
)
from bmtools.training import step_memory
from bmtools.training.adversarial import AdversarialObjective
from bmtools.training.loop import LoopPlan, Trainer
from bmtools.training.objectives import (
    CausalObjective,
    MaskedObjective,
    NspObjective,
    PhasedObjective,
)
from bmtools.training.step_memory import (
    StepMemory,
    full_sequences,
    measure_activations,
    most_masked,
)

pytestmark = pytest.mark.usefixtures("one_thread")
OBJECTIVES = ("masked", "masked+nsp", "causal", "adversarial")


@pytest.fixture
def trainer(model: Any) -> Callable[..., Trainer]:
    """Make a trainer for an objective: `trainer("causal", dropout=0.1)`."""

    def make(name: str = "masked", **loop: Any) -> Trainer:
        losses = {"masked": MaskedObjective, "masked+nsp": NspObjective,
                  "causal": CausalObjective,
                  "adversarial": lambda one: AdversarialObjective(
                      one, AdversarialConfig(adversarial=1.0))}
        objective = PhasedObjective(
            model, {"masked" if name == "adversarial" else name: losses[name](model)})
        return Trainer(objective, LoopPlan(4, lambda _number: 1e-3), OptimizationConfig(**loop),
                       Accelerator(cpu=True))

    return make


def phase_of(toy_phase: Callable[..., Phase], name: str) -> Phase:
    return toy_phase(batch=BatchConfig(64, 512),
                     objective="masked" if name == "adversarial" else name)


@pytest.mark.parametrize(("name", "packed"), [
    ("masked", False), ("masked", True), ("adversarial", False), ("adversarial", True)])
def test_more_memory_holds_more_sequences_and_no_more_than_fit(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], model: Any, name: str,
        packed: bool) -> None:
    if packed:
        prepare_packed(model)
    memory = StepMemory(trainer(name), phase_of(toy_phase, name), packed, returns_freed=True)
    limits = [memory.total_bytes(1) - 1, *(memory.total_bytes(number) + 10
                                           for number in (1, 3, 50, 51))]
    found = [memory.sequences_within(limit) for limit in limits]
    assert found == sorted(found)
    assert found[0] == 0 and found[1] >= 1 and found[3:] == [50, 51]
    for limit, sequences in zip(limits, found, strict=True):
        assert not sequences or memory.total_bytes(sequences) <= limit
    assert memory.sequences_within(1e15) == 512, "a batch is the most there is"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_activations_cover_what_a_larger_micro_batch_really_takes(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], name: str) -> None:
    """Measured up to 32 sequences, between sizes that were tried and far beyond them."""
    made, phase = trainer(name, dropout=0.1), phase_of(toy_phase, name)
    memory = StepMemory(made, phase, False, returns_freed=True)
    for sequences in (1, 11, 40, 200):
        taken = measure_activations(made, phase, False, sequences)
        assert 0.95 * taken < memory.activation_bytes(sequences) < 1.2 * taken


def test_measuring_stays_within_the_limit(trainer: Callable[..., Trainer],
                                          toy_phase: Callable[..., Phase],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    measure = step_memory.measure_activations

    def spy(trainer: Trainer, phase: Phase, packed: bool, sequences: int) -> int:
        tried.append(sequences)
        return measure(trainer, phase, packed, sequences)

    monkeypatch.setattr(step_memory, "measure_activations", spy)
    monkeypatch.setattr(step_memory, "_other_bytes", lambda _trainer: 0)
    made, phase = trainer(), phase_of(toy_phase, "masked")
    memory = StepMemory(made, phase, False)
    assert tried == [1, 2, 4, 8, 16, 32]
    tried.clear()
    StepMemory(made, phase, False, limit=memory.total_bytes(8))
    assert 2 <= max(tried) <= 8
    tried.clear()
    StepMemory(made, replace(phase, batch=BatchConfig(64, 3)), False)
    assert tried == [1, 2], "no more than a batch"


def test_copies_of_weights_and_kept_memory_add_up(trainer: Callable[..., Trainer],
                                                  toy_phase: Callable[..., Phase]) -> None:
    made, phase = trainer(), phase_of(toy_phase, "masked")
    weights = sum(weight.nbytes for weight in made.objective.parameters())
    one, three = (StepMemory(made, phase, False, copies, True) for copies in (1, 3))
    assert three.total_bytes(4) - one.total_bytes(4) == pytest.approx(2 * weights, abs=2**22)
    kept = StepMemory(made, phase, False, 1, returns_freed=False)
    assert kept.total_bytes(400) > one.total_bytes(400)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_measuring_leaves_nothing_behind(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], name: str) -> None:
    made, phase = trainer(name, dropout=0.1), phase_of(toy_phase, name)
    before = {key: weight.clone() for key, weight in made.objective.named_parameters()}
    state = torch.get_rng_state()
    StepMemory(made, phase, False)
    assert torch.equal(torch.get_rng_state(), state)
    assert not made.optimizer.state
    for key, weight in made.objective.named_parameters():
        assert weight.grad is None
        assert torch.equal(weight, before[key])


@pytest.mark.parametrize("packed", [False, True])
def test_full_sequences_are_masked_at_least_as_often_as_those_of_a_phase(
        toy_phase: Callable[..., Phase], packed: bool) -> None:
    phase = toy_phase(batch=BatchConfig(40, 8), objective="masked+nsp", mask_rate=0.1,
                      mask_rate_end=0.4, mask_curve="linear")
    inputs = full_sequences(phase, packed, 3, 100)
    assert most_masked(phase.objective) == 0.4
    assert int((inputs["labels"] >= 0).sum()) >= 0.4 * 3 * 40
    assert inputs["input_ids"].shape == ((120,) if packed else (3, 40))
    assert int(inputs["input_ids"].max()) < 100
    assert inputs["nsp_labels"].shape == (3,)
    if packed:
        assert inputs["lengths"].tolist() == [40, 40, 40]


def test_a_causal_phase_predicts_every_token() -> None:
    assert most_masked(ObjectiveConfig(objective="causal")) == 1.0
    assert most_masked(
        ObjectiveConfig(mask_rate=0.3, mask_rate_end=0.1, mask_curve="cosine")) == 0.3
