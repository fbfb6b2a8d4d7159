"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from bmtools.errors import BmtoolsError
from bmtools.models.checkpoint import load_masked_lm, max_tokens
from bmtools.records import Record
from bmtools.training.loop import start_processes
from bmtools.training.objectives import DistillObjective
from bmtools.training.run import Plan, execute
from bmtools.training.settings import DistillSettings
from bmtools.training.start import from_architecture, from_checkpoint
from bmtools.vocab.tokenizer import same_vocabulary


def distill(plan: Plan, records: Iterable[Record], hashes: Callable[[], Mapping[str, str]],
            teacher: Path, settings: DistillSettings, student: Path | None = None,
            architecture: str | None = None) -> Iterator[dict[str, Any]]:
    """Train a student to restore words as its teacher does, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1; the paper starts from a pretrained student,
    which `student` is; `architecture` starts from new weights instead.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: rows longer than the positions of either model.
    """
    taught = load_masked_lm(teacher)
    if student is not None:
        start = from_checkpoint(student)
        same_vocabulary(start.vocabulary, taught.vocabulary, f"{student}: student")
    else:
        assert architecture is not None
        start = from_architecture(architecture, taught.tokenizer, plan.loop.seed)
    longest = min(start.longest, max_tokens(taught.model))
    if plan.rows.row_tokens > longest:
        raise BmtoolsError(f"--row-tokens: found {plan.rows.row_tokens}, but student and teacher "
                           f"share {longest} positions")
    taught.model.to(start_processes(plan.loop).device)

    def objective(model: Any) -> DistillObjective:
        torch.manual_seed(plan.loop.seed)
        return DistillObjective(model, taught.model, settings)

    yield from execute(plan, records, start, hashes, objective)
