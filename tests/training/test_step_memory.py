"""Memory of a phase: what a rehearsal finds, and that it leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.models.memory import MemoryTracker, memory_estimate
from bmtools.models.packed import prepare_packed
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import (
    AdversarialConfig,
    BatchConfig,
    ObjectiveConfig,
    OptimizationConfig,
)
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
    goes_through,
    most_asked,
    rehearsed_bytes,
    whole_rows,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TASKS = ("masked", "masked+nsp", "causal", "adversarial")


@pytest.fixture
def trainer(model: Any) -> Callable[..., Trainer]:
    """Make a trainer for a task: `trainer("causal", dropout=0.1)`."""

    def make(task: str = "masked", **loop: Any) -> Trainer:
        losses = {"masked": MaskedObjective, "masked+nsp": NspObjective,
                  "causal": CausalObjective,
                  "adversarial": lambda one: AdversarialObjective(
                      one, AdversarialConfig(adversarial=1.0))}
        name = "masked" if task == "adversarial" else task
        objective = PhasedObjective(model, {name: losses[task](model)})
        return Trainer(objective, LoopPlan(4, lambda _number: 1e-3), OptimizationConfig(**loop),
                       Accelerator(cpu=True))

    return make


def phase_of(toy_phase: Callable[..., Phase], task: str) -> Phase:
    return toy_phase(batch=BatchConfig(64, 512),
                     objective="masked" if task == "adversarial" else task)


@pytest.mark.parametrize(("task", "packed"), [
    ("masked", False), ("masked", True), ("adversarial", False), ("adversarial", True)])
def test_rows_are_monotone_in_the_bound_and_meet_it(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], model: Any, task: str,
        packed: bool) -> None:
    if packed:
        prepare_packed(model)
    demand = StepMemory(trainer(task), phase_of(toy_phase, task), packed, returned=True)
    limits = [demand.bytes_of(1) - 1, *(demand.bytes_of(rows) + 10 for rows in (1, 3, 50, 51))]
    found = [demand.rows_within(limit) for limit in limits]
    assert found == sorted(found)
    assert found[0] == 0 and found[1] >= 1 and 47 <= found[3] <= 50 and 48 <= found[4] <= 51
    for limit, rows in zip(limits, found, strict=True):
        assert not rows or demand.bytes_of(rows) <= limit


@pytest.mark.parametrize("task", TASKS)
def test_activations_cover_what_a_larger_pass_really_holds(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], task: str) -> None:
    """The line through one and sixteen rows, or the estimate, at forty."""
    made, phase = trainer(task, dropout=0.1), phase_of(toy_phase, task)
    demand = StepMemory(made, phase, False, returned=True)
    seen = rehearsed_bytes(made, phase, False, 40)
    assert 0.95 * seen < demand._activations(40) < 1.2 * seen


def test_a_plain_task_needs_no_line(trainer: Callable[..., Trainer],
                                    toy_phase: Callable[..., Phase]) -> None:
    made, phase = trainer(), phase_of(toy_phase, "masked")
    demand = StepMemory(made, phase, False)
    assert demand._line is None
    expected = memory_estimate(made.objective.model.config, 9, 64).activations
    assert demand._activations(9) == expected


def test_what_is_held_beside_adds_up(trainer: Callable[..., Trainer],
                                     toy_phase: Callable[..., Phase]) -> None:
    made, phase = trainer(), phase_of(toy_phase, "masked")
    weights = sum(weight.nbytes for weight in made.objective.parameters())
    one, three = (StepMemory(made, phase, False, copies, True) for copies in (1, 3))
    assert three.bytes_of(4) - one.bytes_of(4) == pytest.approx(2 * weights, abs=2**22)
    kept = StepMemory(made, phase, False, 1, returned=False)
    assert kept.bytes_of(400) > one.bytes_of(400)


@pytest.mark.parametrize("task", TASKS)
def test_a_rehearsal_leaves_nothing_behind(
        trainer: Callable[..., Trainer], toy_phase: Callable[..., Phase], task: str) -> None:
    made, phase = trainer(task, dropout=0.1), phase_of(toy_phase, task)
    before = {name: weight.clone() for name, weight in made.objective.named_parameters()}
    state = torch.get_rng_state()
    StepMemory(made, phase, False)
    assert goes_through(made, phase, False, 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert not made.optimizer.state
    for name, weight in made.objective.named_parameters():
        assert weight.grad is None
        assert torch.equal(weight, before[name])


def test_no_memory_is_told_and_cleared(trainer: Callable[..., Trainer],
                                       toy_phase: Callable[..., Phase],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    made, phase = trainer(), phase_of(toy_phase, "masked")

    def full(**_: Any) -> None:
        weight = next(made.objective.parameters())
        weight.grad = torch.zeros_like(weight)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(made.objective, "forward", full)
    assert not goes_through(made, phase, False, 2)
    assert all(weight.grad is None for weight in made.objective.parameters())


@pytest.mark.parametrize("packed", [False, True])
def test_whole_rows_ask_at_least_as_often_as_a_phase(toy_phase: Callable[..., Phase],
                                                     packed: bool) -> None:
    phase = toy_phase(batch=BatchConfig(40, 8), objective="masked+nsp", mask_rate=0.1,
                      mask_rate_end=0.4, mask_curve="linear")
    rows = whole_rows(phase, packed, 3, 100)
    assert most_asked(phase.objective) == 0.4
    assert int((rows["labels"] >= 0).sum()) >= 0.4 * 3 * 40
    assert rows["input_ids"].shape == ((120,) if packed else (3, 40))
    assert int(rows["input_ids"].max()) < 100
    assert rows["nsp_labels"].shape == (3,)
    if packed:
        assert rows["lengths"].tolist() == [40, 40, 40]


def test_a_causal_phase_asks_everywhere() -> None:
    assert most_asked(ObjectiveConfig(objective="causal")) == 1.0
    assert most_asked(ObjectiveConfig(mask_rate=0.3, mask_rate_end=0.1, mask_curve="cosine")) == 0.3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_refuses_what_its_allocator_may_not_take(
        model: Any, toy_phase: Callable[..., Phase]) -> None:
    objective = PhasedObjective(model, {"masked": MaskedObjective(model)})
    made = Trainer(objective, LoopPlan(4, lambda _number: 1e-3), OptimizationConfig(),
                   Accelerator())
    phase = toy_phase(batch=BatchConfig(64, 512))
    with MemoryTracker() as ledger:
        torch.zeros(10, device="cuda")
    assert ledger.most == 40
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2**28 / total)
    try:
        assert goes_through(made, phase, False, 4)
        assert not goes_through(made, phase, False, 4096)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
