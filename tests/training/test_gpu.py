"""The same training on a GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.corpus.rows import cut_rows
from bmtools.training.batches import RowBatches
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective
from bmtools.training.settings import LoopSettings, RowSettings
from bmtools.vocab.encoding import encode

TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_gives_the_losses_of_the_cpu(model: Any, tokenizer: Any) -> None:
    rows = cut_rows(((text.ids, text.starts) for text in encode(tokenizer, TEXTS)), 30)
    found = []
    for accelerator in (Accelerator(cpu=True), Accelerator()):
        batches = RowBatches(rows, RowSettings(batch_size=6), tokenizer, 0)
        trainer = Trainer(MaskedObjective(copy.deepcopy(model)), 5, LoopSettings(), accelerator)
        found.append([step.loss for step in trainer.run(batches)])
    assert found[1] == pytest.approx(found[0], rel=1e-3)
