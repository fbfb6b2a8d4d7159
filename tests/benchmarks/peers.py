"""The peer in pretraining: transformers' Trainer, set up as its example script run_mlm.py does it.

Settings are that script's defaults, but for checkpoints and progress bars, which are off, and for
the number of rows. Rows lie in arrays and become lists when they are asked for, as those of
`datasets` do, only sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

IGNORED = -100
AfterStep = Callable[[Any], bool]
"""Takes the useful tokens of a step, an int or a tensor of one; tells whether to go on."""


class Rows(torch.utils.data.Dataset):
    """Rows of one length, with the columns that run_mlm makes.

    Args:
        ids: (rows, tokens).
        attended: (rows, tokens) bool, False on padding.
    """

    def __init__(self, ids: np.ndarray, attended: np.ndarray) -> None:
        self.ids = ids
        self.attended = attended

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        ids, attended = self.ids[number], self.attended[number]
        return {"input_ids": ids.tolist(), "token_type_ids": [0] * len(ids),
                "attention_mask": attended.astype(int).tolist()}


def group_texts(documents: Sequence[np.ndarray], max_length: int) -> Rows:
    """Lay documents, special tokens included, end to end and cut them; the last rest is dropped."""
    ids = np.concatenate(documents)
    rows = ids[:len(ids) // max_length * max_length].reshape(-1, max_length)
    return Rows(rows, np.ones(rows.shape, dtype=bool))


def line_by_line(documents: Sequence[np.ndarray], max_length: int, padding: int) -> Rows:
    """Give each document a row of full length: cut off where it is longer, padded where shorter."""
    rows = np.full((len(documents), max_length), padding, dtype=documents[0].dtype)
    attended = np.zeros(rows.shape, dtype=bool)
    for row, seen, document in zip(rows, attended, documents, strict=True):
        kept = document if len(document) <= max_length else \
            np.append(document[:max_length - 1], document[-1])
        row[:len(kept)] = kept
        seen[:len(kept)] = True
    return Rows(rows, attended)


def train(model: Any, tokenizer: Any, rows: Rows, batch_rows: int, directory: Path,
          after_step: AfterStep, **settings: Any) -> None:
    """Train until told to stop.

    Args:
        model: as transformers makes it.
        tokenizer: of the rows.
        rows: to train on.
        batch_rows: of a step.
        directory: for what Trainer writes.
        after_step: called after each step.
        settings: of TrainingArguments, beside run_mlm's defaults.
    """
    arguments = TrainingArguments(
        output_dir=str(directory), per_device_train_batch_size=batch_rows, max_steps=100_000,
        save_strategy="no", report_to="none", disable_tqdm=True, **settings)
    trainer = _CountingTrainer(
        model=model, args=arguments, train_dataset=rows, processing_class=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15))
    trainer.add_callback(_AfterStep(trainer, after_step))
    trainer.train()


class _CountingTrainer(Trainer):
    """Counts what is text in each batch: neither padding nor special tokens."""

    text_tokens: Any = 0

    def training_step(self, model: Any, inputs: dict[str, Tensor], *rest: Any, **more: Any) -> Any:
        ids, labels = inputs["input_ids"], inputs["labels"]
        special = torch.tensor(self.processing_class.all_special_ids).to(ids.device)
        self.text_tokens = (~torch.isin(ids, special) | (labels != IGNORED)).sum()
        return super().training_step(model, inputs, *rest, **more)


class _AfterStep(TrainerCallback):
    def __init__(self, trainer: _CountingTrainer, after_step: AfterStep) -> None:
        self._trainer = trainer
        self._after_step = after_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self._after_step(self._trainer.text_tokens):
            control.should_training_stop = True
