"""The peer in pretraining: transformers' Trainer, set up as its example script run_mlm.py does it.

Its settings are that script's defaults but for what a benchmark has to say: no checkpoints, no
progress bar, and as many rows as it is told. Rows lie in arrays and become lists when they are
asked for, as those of `datasets` do, only sooner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from bmtools.corpus.shards import Corpus

AfterStep = Callable[[int], bool]
"""Takes the useful tokens of a step; tells whether to go on."""


class Rows(torch.utils.data.Dataset):
    """Rows of one length, with the columns that a tokenizer gives.

    Args:
        ids: (rows, tokens).
        attended: (rows, tokens) bool, False on padding.
    """

    def __init__(self, ids: np.ndarray, attended: np.ndarray) -> None:
        self._ids = ids
        self._attended = attended

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        ids, attended = self._ids[number], self._attended[number]
        return {"input_ids": ids.tolist(), "token_type_ids": [0] * len(ids),
                "attention_mask": attended.astype(np.int64).tolist(),
                "special_tokens_mask": (~attended).astype(np.int64).tolist()}


def group_texts(documents: list[np.ndarray], row_tokens: int) -> Rows:
    """Lay documents with their special tokens end to end and cut them; the rest is dropped."""
    everything = np.concatenate(documents)
    rows = everything[:len(everything) // row_tokens * row_tokens].reshape(-1, row_tokens)
    return Rows(rows, np.ones(rows.shape, dtype=bool))


def line_by_line(documents: list[np.ndarray], row_tokens: int, padding: int) -> Rows:
    """Give each document a row, cut off where it is longer and padded where it is shorter."""
    rows = np.full((len(documents), row_tokens), padding)
    attended = np.zeros(rows.shape, dtype=bool)
    for number, document in enumerate(documents):
        kept = document if len(document) <= row_tokens else \
            np.append(document[:row_tokens - 1], document[-1])
        rows[number, :len(kept)] = kept
        attended[number, :len(kept)] = True
    return Rows(rows, attended)


def documents_of(corpus: Corpus, tokenizer: Any) -> list[np.ndarray]:
    """Documents as the tokenizer gives them, each between its special tokens."""
    numbers = np.arange(len(corpus))
    ids, _ = corpus.gather(numbers, np.zeros_like(numbers), corpus.lengths)
    parts = np.split(ids, np.cumsum(corpus.lengths.astype(np.int64))[:-1])
    first, last = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    return [np.concatenate([first, part, last]) for part in parts]


class _CountingCollator(DataCollatorForLanguageModeling):
    """Notes how many tokens of each batch are text: neither padding nor special."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.counts: deque[int] = deque()
        self._special = np.array(sorted(self.tokenizer.all_special_ids))

    def torch_call(self, examples: list[Any]) -> dict[str, Any]:
        ids = np.array([one["input_ids"] for one in examples])
        self.counts.append(int((~np.isin(ids, self._special)).sum()))
        return super().torch_call(examples)


class _AfterEachStep(TrainerCallback):
    def __init__(self, counts: deque[int], after_step: AfterStep) -> None:
        self._counts = counts
        self._after_step = after_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self._after_step(self._counts.popleft()):
            control.should_training_stop = True


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
    collator = _CountingCollator(tokenizer, mlm_probability=0.15)
    arguments = TrainingArguments(
        output_dir=str(directory), per_device_train_batch_size=batch_rows, max_steps=100_000,
        save_strategy="no", report_to="none", disable_tqdm=True, **settings)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator,
                      processing_class=tokenizer,
                      callbacks=[_AfterEachStep(collator.counts, after_step)])
    trainer.train()
