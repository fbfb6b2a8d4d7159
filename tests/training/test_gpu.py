"""The same training on a GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.models.packed import prepare_packed
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


def losses(model: Any, batches: Any, accelerator: Accelerator) -> list[float]:
    trainer = Trainer(MaskedObjective(copy.deepcopy(model)), 5, lambda _number: 1e-3,
                      OptimizationConfig(tf32=False), accelerator)
    return [step.losses["loss"] for step in trainer.run(batches)]


@pytest.mark.parametrize("is_packed", [False, True])
def test_losses_on_a_gpu_equal_losses_on_a_cpu(model: Any, toy: Any, toy_phase: Any,
                                               is_packed: bool) -> None:
    if is_packed:
        prepare_packed(model)
    expected, found = (
        losses(model, toy.batches(TEXTS, toy_phase(5), packed=is_packed), accelerator)
        for accelerator in (Accelerator(cpu=True), Accelerator()))
    assert found == pytest.approx(expected, rel=1e-3)
