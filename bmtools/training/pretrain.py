"""Pretraining, from scratch or continued, in phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsError, Reject
from bmtools.models.masked import tells_segments
from bmtools.training.adversary import AdversarialObjective
from bmtools.training.corpora import Wanted, open_texts
from bmtools.training.loop import start_processes
from bmtools.training.objectives import (
    CausalObjective,
    MaskedObjective,
    Objective,
    PairObjective,
    PhasedObjective,
)
from bmtools.training.plan import Plan
from bmtools.training.regularisation import AdversarySettings
from bmtools.training.run import execute
from bmtools.training.start import Start, from_architecture, from_checkpoint
from bmtools.vocab.tokenizer import load_tokenizer


@dataclass(frozen=True)
class Beginning:
    """What to train: a checkpoint, or an architecture with a tokenizer."""

    model: Path | None = None
    architecture: str | None = None
    tokenizer: Path | None = None

    def start(self, seed: int, longest_row: int) -> Start:
        """Load or build it.

        Raises:
            CheckpointError: the checkpoint or the tokenizer cannot be used.
            BmtoolsError: no such architecture, or rows longer than the model's positions.
        """
        if self.model is not None:
            start = from_checkpoint(self.model)
        else:
            assert self.architecture is not None and self.tokenizer is not None
            start = from_architecture(self.architecture, load_tokenizer(self.tokenizer), seed,
                                      longest_row)
        if longest_row > start.longest:
            raise BmtoolsError(f"--row-tokens: found {longest_row}, but the model has "
                               f"{start.longest} positions")
        return start


def pretrain(plan: Plan, beginning: Beginning, wanted: Wanted, adversary: AdversarySettings,
             reject: Reject) -> Iterator[dict[str, Any]]:
    """Train a masked language model and yield its metrics.

    Args:
        plan: the run as asked for.
        beginning: what to train.
        wanted: the texts.
        adversary: how embeddings are attacked, if at all.
        reject: receives bad records.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: rows longer than the model's positions.
    """
    phases = plan.script.phases
    start = beginning.start(plan.loop.seed, max(phase.rows.row_tokens for phase in phases))
    tasks = {phase.task.objective for phase in phases}
    accelerator = start_processes(plan.loop, plan.run.trackers,
                                  len(tasks) > 1 or any(phase.freezes for phase in phases))
    texts = open_texts(plan, wanted, start, reject, accelerator)

    def objective(model: Any, tasks: frozenset[str]) -> PhasedObjective:
        return PhasedObjective(model, {task: _objective(task, model, plan.loop.seed, adversary)
                                       for task in sorted(tasks)})

    yield from execute(plan, texts, start, accelerator, objective)


def _objective(task: str, model: Any, seed: int, adversary: AdversarySettings) -> Objective:
    if task == "masked+nsp":
        if not tells_segments(model):
            raise BmtoolsError(f"--objective {task}: {type(model).__name__} has no token types; "
                               "expected BERT or Megatron-BERT")
        pairs = PairObjective(model, seed)
        return AdversarialObjective(model, adversary, pairs.head) if adversary.adversarial \
            else pairs
    if task == "causal":
        return CausalObjective(model)
    return AdversarialObjective(model, adversary) if adversary.adversarial \
        else MaskedObjective(model)

