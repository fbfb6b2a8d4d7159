"""Micro-batch sizes, as set or as memory allows, and the memory of a step as measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.errors import BmtoolsError
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    BatchConfig,
    OptimizationConfig,
    PretrainingConfig,
    ReportingConfig,
)
from bmtools.training.loop import Trainer
from bmtools.training.microbatch import (
    StepMemory,
    fit_micro_batches,
    measure_activations,
)
from bmtools.training.objectives import (
    AdversarialObjective,
    CausalObjective,
    MaskedObjective,
    PhasedObjective,
)
from bmtools.training.plan import TrainingPlan

pytestmark = pytest.mark.usefixtures("one_thread")
GIB = 2**30
ENOUGH = 1000.0


@pytest.fixture
def plan(toy_phase: Callable[..., Phase]) -> Callable[..., TrainingPlan]:
    """Make a plan of a short and a long phase: `plan(memory_gib=1)`."""

    def make(**loop: Any) -> TrainingPlan:
        phases = (toy_phase(name="short", batch=BatchConfig(32, 256)),
                  toy_phase(name="long", batch=BatchConfig(128, 4096), mask_rate=0.3))
        return TrainingPlan("test", Path("out"), RunConfig(phases), OptimizationConfig(**loop),
                            ReportingConfig())

    return make


@pytest.fixture
def trainer(model: Any) -> Trainer:
    """A trainer before its first step, with two layers of width 64."""
    objective = PhasedObjective(model, {"masked": MaskedObjective(model)})
    return Trainer(objective, 4, lambda _number: 1e-3, OptimizationConfig(),
                   Accelerator(cpu=True))


def test_each_phase_gets_the_sequences_that_fit(plan: Callable[..., TrainingPlan],
                                                trainer: Trainer,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Other memory of this process depends on earlier tests and is fixed here."""
    monkeypatch.setattr("bmtools.training.microbatch._other_bytes", lambda _trainer: GIB)
    bound = plan(memory_gib=ENOUGH)
    long = StepMemory(bound, trainer, bound.config.phases[1], False, 1, ENOUGH * GIB)
    found = fit_micro_batches(plan(memory_gib=long.total_bytes(100) / GIB), trainer, False, 1)
    assert found["short"] == 0, "a whole batch fits"
    assert found["long"] == pytest.approx(100, abs=2)


def test_too_little_memory_for_a_sequence_is_a_one_line_error(
        plan: Callable[..., TrainingPlan], trainer: Trainer) -> None:
    with pytest.raises(BmtoolsError, match=r"phase 'short': a single sequence of 32 tokens needs "
                                           r"[\d.]+ GiB, but a process may use 0.05; lower max"):
        fit_micro_batches(plan(memory_gib=0.05), trainer, False, 1)


OBJECTIVES = ("masked", "masked+nsp", "causal", "adversarial")


@pytest.fixture
def make_trainer(model: Any) -> Callable[..., Trainer]:
    """Make a trainer for an objective: `make_trainer("causal", dropout=0.1)`."""

    def make(name: str = "masked", **loop: Any) -> Trainer:
        losses = {"masked": MaskedObjective,
                  "masked+nsp": lambda one: MaskedObjective(one, NextSentenceHead(64)),
                  "causal": CausalObjective,
                  "adversarial": lambda one: AdversarialObjective(
                      one, PretrainingConfig(adversarial=1.0))}
        objective = PhasedObjective(
            model, {"masked" if name == "adversarial" else name: losses[name](model)})
        return Trainer(objective, 4, lambda _number: 1e-3, OptimizationConfig(**loop),
                       Accelerator(cpu=True))

    return make


def phase_of(toy_phase: Callable[..., Phase], name: str) -> Phase:
    return toy_phase(batch=BatchConfig(64, 512),
                     objective="masked" if name == "adversarial" else name)


@pytest.mark.parametrize(("name", "packed"), [
    ("masked", False), ("masked", True), ("adversarial", False), ("adversarial", True)])
def test_more_memory_fits_more_sequences_within_the_limit(
        plan: Callable[..., TrainingPlan], make_trainer: Callable[..., Trainer],
        toy_phase: Callable[..., Phase], model: Any,
        name: str, packed: bool) -> None:
    if packed:
        prepare_packed(model)
    memory = StepMemory(plan(memory_gib=ENOUGH), make_trainer(name), phase_of(toy_phase, name),
                        packed)
    limits = [memory.total_bytes(1) - 1, *(memory.total_bytes(number) + 10
                                           for number in (1, 3, 50, 51))]
    found = [memory.sequences_within(limit) for limit in limits]
    assert found == sorted(found)
    assert found[0] == 0 and found[1] >= 1 and found[3:] == [50, 51]
    for limit, sequences in zip(limits, found, strict=True):
        assert not sequences or memory.total_bytes(sequences) <= limit
    assert memory.sequences_within(1e15) == 512, "a batch is the most there is"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_estimates_cover_the_activations_of_larger_micro_batches(
        plan: Callable[..., TrainingPlan], make_trainer: Callable[..., Trainer],
        toy_phase: Callable[..., Phase], name: str) -> None:
    """Measured up to 32 sequences, between sizes that were tried and far beyond them."""
    made, phase = make_trainer(name, dropout=0.1), phase_of(toy_phase, name)
    memory = StepMemory(plan(memory_gib=ENOUGH), made, phase, False)
    for sequences in (1, 11, 40, 200):
        taken = measure_activations(made, phase, False, sequences)
        assert 0.95 * taken < memory.activation_bytes(sequences) < 1.2 * taken


@pytest.mark.parametrize("name", OBJECTIVES)
def test_measuring_does_not_change_the_trainer(
        plan: Callable[..., TrainingPlan], make_trainer: Callable[..., Trainer],
        toy_phase: Callable[..., Phase], name: str) -> None:
    made, phase = make_trainer(name, dropout=0.1), phase_of(toy_phase, name)
    before = {key: weight.clone() for key, weight in made.objective.named_parameters()}
    state = torch.get_rng_state()
    StepMemory(plan(), made, phase, False)
    assert torch.equal(torch.get_rng_state(), state)
    assert not made.optimizer.state
    for key, weight in made.objective.named_parameters():
        assert weight.grad is None
        assert torch.equal(weight, before[key])
