"""Micro-batches split in two where memory does not suffice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from bmtools.data.batches import RankBatch, split_in_half
from bmtools.errors import BmtoolsError
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import BatchConfig, OptimizationConfig
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective, PairObjective

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue. {'Il polmone filtra la bile. ' * (n % 5)}" for n in range(60)]


@torch.no_grad()
def sums(objective: Any, micro_batches: Any) -> dict[str, float]:
    found = [objective(**inputs) for inputs in micro_batches]
    return {name: float(sum(part[name] for part in found)) for name in found[0]}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("task", ["masked", "masked+nsp", "masked+sop"])
def test_halves_hold_what_the_whole_held(model: Any, toy: Any, toy_phase: Callable[..., Phase],
                                         packed: bool, task: str) -> None:
    phase = toy_phase(batch=BatchConfig(32, 6), objective=task)
    share = toy.batches(TEXTS, phase, packed=packed).batch(0)
    if packed:
        prepare_packed(model)
    objective = (MaskedObjective(model) if task == "masked"
                 else PairObjective(model, NextSentenceHead(64))).eval()
    micro_batches, expected = list(share.micro_batches), sums(objective, list(share.micro_batches))
    for _ in range(6):
        micro_batches = split_in_half(micro_batches)
        assert sums(objective, micro_batches) == pytest.approx(expected, rel=1e-4)
    # Nothing is left to split: single sequences, or single documents.
    assert len(split_in_half(micro_batches)) == len(micro_batches) >= 6
    name = "lengths" if packed else "input_ids"
    assert {len(inputs[name]) for inputs in micro_batches} == {1}


class Narrow(MaskedObjective):
    """Takes micro-batches of a few sequences only, as a GPU would; records their sizes."""

    def __init__(self, model: Any, most: int) -> None:
        super().__init__(model)
        self.most = most
        self.seen: list[int] = []

    def forward(self, input_ids: Tensor, *others: Tensor, **more: Tensor) -> dict[str, Tensor]:
        if len(input_ids) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.seen.append(len(input_ids))
        return super().forward(input_ids, *others, **more)


def train(objective: Any, batches: Any,
          settings: OptimizationConfig = OptimizationConfig()) -> list[float]:  # noqa: B008
    accelerator = Accelerator(cpu=True)
    trainer = Trainer(objective, 4, lambda _: 1e-3, settings, accelerator)
    return [step.losses["loss"] for step in trainer.run(batches)]


def test_out_of_memory_makes_passes_smaller_from_then_on(
        model: Any, toy: Any, toy_phase: Callable[..., Phase]) -> None:
    batches = toy.batches(TEXTS, toy_phase(steps=4, batch=BatchConfig(32, 8)))
    expected = train(MaskedObjective(copy.deepcopy(model)), batches)
    narrow = Narrow(model, 3)
    assert train(narrow, batches) == pytest.approx(expected, abs=1e-5)
    assert narrow.seen == [2, 2, 2, 2] * 4


def test_a_row_that_does_not_fit_is_one_clear_line(
        model: Any, toy: Any, toy_phase: Callable[..., Phase]) -> None:
    batches = toy.batches(TEXTS, toy_phase(steps=4, batch=BatchConfig(32, 8)))
    with pytest.raises(BmtoolsError, match="the GPU has too little memory for a micro-batch "
                                           "of 1 sequences; set micro_batch_size, lower"):
        train(Narrow(model, 0), batches)


def test_a_deterministic_run_is_not_cut_up_by_the_memory_that_is_free(
        model: Any, toy: Any, toy_phase: Callable[..., Phase]) -> None:
    batches = toy.batches(TEXTS, toy_phase(steps=4, batch=BatchConfig(32, 8)))
    with pytest.raises(BmtoolsError, match="too little memory for a micro-batch of 8 sequences"):
        train(Narrow(model, 3), batches, OptimizationConfig(deterministic=True))


def test_counts_stay_as_they_are(toy: Any, toy_phase: Callable[..., Phase]) -> None:
    share = toy.batches(TEXTS, toy_phase()).batch(0)
    assert RankBatch(split_in_half(share.micro_batches), share.counts).counts == share.counts
