"""Replay: when, how often, and of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import Batches, Collator, RankBatch, ScheduledBatches, SpecialTokens
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.masking.strategies import make_strategy
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import Schedule
from bmtools.recipes.settings import BatchConfig, OptimizationConfig
from bmtools.training.loop import LoopPlan, StepResult, Trainer
from bmtools.training.objectives import MaskedObjective
from bmtools.training.replay import Replay

pytestmark = pytest.mark.usefixtures("one_thread")


class Spy:
    """Stands for a trainer, and writes down what it is given."""

    accelerator = Accelerator(cpu=True)

    def __init__(self) -> None:
        self.calls: list[tuple[int, RankBatch, int]] = []

    def step(self, number: int, share: RankBatch, turn: int) -> StepResult:
        self.calls.append((number, share, turn))
        return StepResult(number + 1, {"loss": 0.5}, 1e-3, {})


@pytest.fixture
def replay(toy: Any, toy_phase: Callable[..., Phase]) -> Callable[..., tuple[Replay, Schedule]]:
    """Make a replay of old text beside phases of 4, 1 and 7 steps."""

    def make(every: int) -> tuple[Replay, Schedule]:
        phases = [toy_phase(name="a", batch=BatchConfig(16, 4)),
                  toy_phase(name="b", batch=BatchConfig(16, 4)),
                  toy_phase(name="c", batch=BatchConfig(32, 2), mask_rate=0.5)]
        timeline = Schedule(phases, [4, 1, 7])
        corpora = {"replay": toy.corpus(
            [f"Il rene filtra {'la bile ' * (n % 9)}." for n in range(50)])}

        def batches(sampler: Sampler, given: Mapping[str, Corpus]) -> Batches:
            collator = Collator(list(given.values()), SpecialTokens.of(toy.tokenizer), False, 0,
                                {"words": make_strategy("words")})
            return ScheduledBatches(sampler, collator)

        return Replay(every, corpora, timeline, False, 0, batches), timeline

    return make


@pytest.mark.parametrize("every", [1, 2, 3, 5, 12, 20])
def test_after_every_nth_step_in_the_manner_of_its_phase(
        replay: Callable[..., tuple[Replay, Schedule]], every: int) -> None:
    made, timeline = replay(every)
    spy: Any = Spy()
    told = [made.after(StepResult(number, {"loss": 1.0}, 1e-3, {}), spy) for number in range(1, 13)]
    due = [number for number in range(1, 13) if number % every == 0]
    assert [number for number, step in enumerate(told, 1) if step] == due
    assert [(number + 1, turn) for number, _, turn in spy.calls] == [(step, 1) for step in due]
    for step, (_, share, _) in zip(due, spy.calls, strict=True):
        phase = timeline.phase_step(step - 1).phase
        ids = share.micro_batches[0]["input_ids"]
        assert len(ids) == phase.batch.batch_size and ids.shape[1] <= phase.batch.max_length


def test_the_old_text_goes_on_where_it_was(replay: Callable[..., tuple[Replay, Schedule]]) -> None:
    """A resumed sitting asks for a later batch first, and gets the same one."""
    spies: list[Any] = [Spy(), Spy()]
    for spy, first in zip(spies, (1, 9), strict=True):
        made, _ = replay(3)
        for number in range(first, 13):
            made.after(StepResult(number, {"loss": 1.0}, 1e-3, {}), spy)
    for ours, theirs in zip(spies[0].calls[2:], spies[1].calls, strict=True):
        assert ours[0] == theirs[0]
        assert torch.equal(ours[1].micro_batches[0]["input_ids"],
                           theirs[1].micro_batches[0]["input_ids"])
    shown = [spies[0].calls[n][1].micro_batches[0]["input_ids"] for n in (0, 1)]
    assert shown[0].shape != shown[1].shape or not torch.equal(*shown)


def test_it_updates_weights_at_the_rate_of_its_step(
        model: Any, replay: Callable[..., tuple[Replay, Schedule]]) -> None:
    made, _ = replay(2)
    rates = [0.0, 1e-2, 0.0]
    trainer = Trainer(MaskedObjective(model), LoopPlan(3, lambda number: rates[number]),
                      OptimizationConfig(), Accelerator(cpu=True))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    step = made.after(StepResult(2, {"loss": 1.0}, 1e-2, {}), trainer)
    assert step is not None and step.learning_rate == 1e-2
    moved = (model.state_dict()["cls.predictions.bias"] - before["cls.predictions.bias"]).abs()
    assert 0 < moved.max() < 2e-2
