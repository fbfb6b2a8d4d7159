"""Pretraining, from scratch or continued, in phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from bmtools.errors import Reject
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.settings import AdversarialConfig
from bmtools.training.adversarial import AdversarialObjective
from bmtools.training.datasets import DataConfig
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.model_init import InitialModel, from_architecture, from_checkpoint
from bmtools.training.objectives import (
    CausalObjective,
    MaskedObjective,
    NspObjective,
    Objective,
    PhasedObjective,
)
from bmtools.training.plan import TrainingPlan
from bmtools.training.run import MakeObjective, train
from bmtools.vocab.tokenizer import load_tokenizer


@dataclass(frozen=True)
class ModelInit:
    """What to train: a checkpoint, or an architecture with a tokenizer."""

    model: Path | None = None
    architecture: str | None = None
    tokenizer: Path | None = None

    def start(self, plan: TrainingPlan) -> InitialModel:
        """Load or build it, with as many positions as the rows of a plan need.

        Raises:
            CheckpointError: the checkpoint or the tokenizer cannot be used.
            BmtoolsError: no such architecture.
        """
        if self.model is not None:
            return from_checkpoint(self.model)
        assert self.architecture is not None and self.tokenizer is not None
        return from_architecture(self.architecture, load_tokenizer(self.tokenizer),
                                 plan.optimization.seed,
                                 longest_sequence(plan.config.phases))


def pretrain(plan: TrainingPlan, beginning: ModelInit, wanted: DataConfig,
             reject: Reject) -> Iterator[dict[str, Any]]:
    """Train a masked language model and yield its metrics.

    Args:
        plan: the run as asked for.
        beginning: what to train.
        wanted: the texts.
        reject: receives bad records.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: as for `train`.
    """
    yield from train(plan, beginning.start(plan), wanted, reject, losses_of(plan))


def losses_of(plan: TrainingPlan) -> MakeObjective:
    """Give what makes the losses of all phases around a model, and that of held-out text."""
    tasks = sorted({phase.objective.objective for phase in plan.config.phases})

    def objective(model: Any, _accelerator: Accelerator) -> PhasedObjective:
        return PhasedObjective(model, {
            **{task: _objective(task, model, plan.optimization.seed, plan.adversarial)
               for task in tasks},
            HELD_OUT: MaskedObjective(model)})

    return objective


def _objective(task: str, model: Any, seed: int, adversary: AdversarialConfig) -> Objective:
    if task == "masked+nsp":
        pairs = NspObjective(model, seed)
        return AdversarialObjective(model, adversary, pairs.head) if adversary.adversarial \
            else pairs
    if task == "causal":
        return CausalObjective(model)
    return AdversarialObjective(model, adversary) if adversary.adversarial \
        else MaskedObjective(model)

