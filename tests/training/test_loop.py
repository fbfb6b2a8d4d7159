"""The loop: schedules, pieces and what they leave unchanged."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.corpus.rows import cut_rows
from bmtools.errors import BmtoolsError
from bmtools.training.batches import RowBatches
from bmtools.training.loop import Trainer, learning_rate, set_dropout
from bmtools.training.objectives import MaskedObjective
from bmtools.training.settings import LoopSettings, RowSettings
from bmtools.vocab.encoding import encode

SETTINGS = LoopSettings(learning_rate=1e-3)
TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


def losses(model: Any, tokenizer: Any, settings: LoopSettings, steps: int = 4) -> list[float]:
    rows = cut_rows(((text.ids, text.starts) for text in encode(tokenizer, TEXTS)), 30)
    batches = RowBatches(rows, RowSettings(batch_size=6), tokenizer, 0)
    trainer = Trainer(MaskedObjective(copy.deepcopy(model)), steps, settings, Accelerator(cpu=True))
    return [step.loss for step in trainer.run(batches)]


def test_the_rate_rises_and_falls_linearly() -> None:
    settings = LoopSettings(learning_rate=1.0, warmup_share=0.2)
    rates = [learning_rate(number, 10, settings) for number in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_pieces_of_a_batch_add_up_to_it(model: Any, tokenizer: Any) -> None:
    whole = losses(model, tokenizer, SETTINGS)
    for rows in (1, 2, 4):
        cut = losses(model, tokenizer, replace(SETTINGS, micro_batch=rows))
        assert cut == pytest.approx(whole, rel=1e-5)


def test_a_step_is_adamw_s(model: Any, tokenizer: Any) -> None:
    """One step of the loop against torch's own optimizer on transformers' own loss."""
    twin = copy.deepcopy(model)
    rows = cut_rows(((text.ids, text.starts) for text in encode(tokenizer, TEXTS)), 30)
    batches = RowBatches(rows, RowSettings(batch_size=6), tokenizer, 0)
    settings = LoopSettings(learning_rate=1e-3, weight_decay=0.0, clip_norm=1e9, warmup_share=0.0)
    trainer = Trainer(MaskedObjective(model), 1, settings, Accelerator(cpu=True))
    [step] = trainer.run(batches)

    given = batches.batch(0).inputs
    set_dropout(twin, 0.0)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.0)
    loss = twin(input_ids=given["ids"], attention_mask=given["attended"].long(),
                labels=given["labels"]).loss
    loss.backward()
    optimizer.step()
    assert step.loss == pytest.approx(loss.item(), rel=1e-5)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_dropout_is_set_everywhere_and_repeats_by_step(model: Any, tokenizer: Any) -> None:
    settings = replace(SETTINGS, dropout=0.3)
    first, again = (losses(model, tokenizer, settings) for _ in range(2))
    assert first == again
    assert first != losses(model, tokenizer, SETTINGS)
    assert model.config.hidden_dropout_prob == 0.1


def test_a_loss_that_is_no_number_stops_the_run(model: Any, tokenizer: Any) -> None:
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight.fill_(float("nan"))
    with pytest.raises(BmtoolsError, match="step 1: the loss is nan"):
        losses(model, tokenizer, SETTINGS)
