"""The other side in pretraining: transformers' Trainer, set up as in its example run_mlm.py.

Settings are the defaults of that script, except for the batch size, and for checkpoints and
progress bars, which are off. Sequences are stored in arrays and converted to lists on access. The
library `datasets` does the same, but more slowly.
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
"""Takes the useful tokens of a step, an int or a tensor of one; returns whether to continue."""


class Sequences(torch.utils.data.Dataset):
    """Sequences of one length, with the columns that run_mlm creates.

    Args:
        ids: (sequences, tokens).
        attention_mask: (sequences, tokens) bool, False on padding.
    """

    def __init__(self, ids: np.ndarray, attention_mask: np.ndarray) -> None:
        self.ids = ids
        self.attention_mask = attention_mask

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        ids, attention_mask = self.ids[number], self.attention_mask[number]
        return {"input_ids": ids.tolist(), "token_type_ids": [0] * len(ids),
                "attention_mask": attention_mask.astype(int).tolist()}


def group_texts(documents: Sequence[np.ndarray], max_length: int) -> Sequences:
    """Concatenate documents with their special tokens, and cut them; drop the remainder."""
    ids = np.concatenate(documents)
    sequences = ids[:len(ids) // max_length * max_length].reshape(-1, max_length)
    return Sequences(sequences, np.ones(sequences.shape, dtype=bool))


def line_by_line(documents: Sequence[np.ndarray], max_length: int, padding: int) -> Sequences:
    """Convert each document to a sequence of full length, truncated or padded."""
    sequences = np.full((len(documents), max_length), padding, dtype=documents[0].dtype)
    attention_mask = np.zeros(sequences.shape, dtype=bool)
    for ids, mask, document in zip(sequences, attention_mask, documents, strict=True):
        kept = document if len(document) <= max_length else \
            np.append(document[:max_length - 1], document[-1])
        ids[:len(kept)] = kept
        mask[:len(kept)] = True
    return Sequences(sequences, attention_mask)


def train(model: Any, tokenizer: Any, sequences: Sequences, batch_size: int, directory: Path,
          after_step: AfterStep, **settings: Any) -> None:
    """Train until `after_step` returns False.

    Args:
        model: model as transformers creates it.
        tokenizer: tokenizer of the sequences.
        sequences: sequences to train on.
        batch_size: number of sequences per step.
        directory: directory for files that Trainer writes.
        after_step: called after each step.
        settings: settings of TrainingArguments, in addition to run_mlm's defaults.
    """
    arguments = TrainingArguments(
        output_dir=str(directory), per_device_train_batch_size=batch_size, max_steps=100_000,
        save_strategy="no", report_to="none", disable_tqdm=True, **settings)
    trainer = _CountingTrainer(
        model=model, args=arguments, train_dataset=sequences, processing_class=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15))
    trainer.add_callback(_AfterStep(trainer, after_step))
    trainer.train()


class _CountingTrainer(Trainer):
    """Trainer that counts the text in each batch, without padding and special tokens."""

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
