"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from bmtools.errors import BmtoolsError, Reject
from bmtools.models.checkpoint import load_masked_lm, max_tokens
from bmtools.models.packed import prepare_packed
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.settings import DistillationConfig
from bmtools.training.datasets import DataConfig
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.model_init import InitialModel, from_architecture, from_checkpoint
from bmtools.training.objectives import DistillationObjective, MaskedObjective, PhasedObjective
from bmtools.training.packing_check import is_packed
from bmtools.training.plan import TrainingPlan
from bmtools.training.run import train
from bmtools.vocab.tokenizer import require_same_vocabulary


@dataclass(frozen=True)
class StudentInit:
    """What is taught: a pretrained student, or an architecture with new weights."""

    student: Path | None = None
    architecture: str | None = None

    def start(self, teacher: Any, seed: int) -> InitialModel:
        """Load or build it.

        Raises:
            CheckpointError: it cannot be used, or has another vocabulary than the teacher.
        """
        if self.student is None:
            assert self.architecture is not None
            return from_architecture(self.architecture, teacher.tokenizer, seed)
        start = from_checkpoint(self.student)
        require_same_vocabulary(start.vocabulary, teacher.vocabulary, f"{self.student}: student")
        return start


def distill(plan: TrainingPlan, pupil: StudentInit, teacher: Path, wanted: DataConfig,
            settings: DistillationConfig,
            reject: Reject) -> Iterator[dict[str, Any]]:
    """Train a student to restore words as its teacher does, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1; the paper starts from a pretrained student,
    which `pupil` may be; an architecture starts from new weights instead.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: rows longer than the positions of either model.
    """
    taught = load_masked_lm(teacher)
    start = pupil.start(taught, plan.optimization.seed)
    longest = min(start.longest, max_tokens(taught.model))
    rows = longest_sequence(plan.config.phases)
    if rows > longest:
        raise BmtoolsError(f"--max-length: found {rows}, but student and teacher share "
                           f"{longest} positions")

    def objective(model: Any, accelerator: Accelerator) -> PhasedObjective:
        taught.model.to(accelerator.device)
        if is_packed(plan, accelerator):
            prepare_packed(taught.model)
        torch.manual_seed(plan.optimization.seed)
        return PhasedObjective(model, {"masked": DistillationObjective(model, taught.model,
                                                                       settings),
                                       HELD_OUT: MaskedObjective(model)})

    yield from train(plan, start, wanted, reject, objective)
