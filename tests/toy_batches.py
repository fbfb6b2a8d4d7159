"""Masked batches of random tokens, padded and packed, and an objective with a teacher."""

from __future__ import annotations

from typing import Any

import torch

from bmtools.data.masking.corruption import IGNORED
from bmtools.recipes.settings import DistillationConfig
from bmtools.training.distill import DistillationObjective, Teacher


def make_batch(tokenizer: Any) -> dict[str, torch.Tensor]:
    """Make four padded sequences with labels for about a third of their tokens."""
    rng = torch.Generator().manual_seed(3)
    ids = torch.randint(5, len(tokenizer), (4, 12), generator=rng)
    attention_mask = torch.arange(12) < torch.tensor([12, 9, 12, 5])[:, None]
    masked = (torch.rand(ids.shape, generator=rng) < 0.3) & attention_mask
    return {"input_ids": ids, "attention_mask": attention_mask,
            "labels": ids.where(masked, torch.tensor(IGNORED))}


def packed_of(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Concatenate the same sequences."""
    attention_mask = batch["attention_mask"]
    return {**{name: value[attention_mask] for name,
               value in batch.items() if name != "attention_mask"},
            "lengths": attention_mask.sum(dim=1)}


def taught_by(student: Any, teacher: Any, **settings: Any) -> DistillationObjective:
    """Make the objective of a student and a live teacher."""
    config = DistillationConfig(**settings)
    return DistillationObjective(student, Teacher(teacher), config)
