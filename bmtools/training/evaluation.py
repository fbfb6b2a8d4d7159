"""Held-out text, always masked the same way, so that losses compare across steps and phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from bmtools.data.batches import Collator, SpecialTokens
from bmtools.data.samples import cut_evenly, whole_documents
from bmtools.data.shards import Corpus
from bmtools.masking.strategies import MaskStrategy
from bmtools.recipes.settings import ObjectiveConfig
from bmtools.training.objectives import Objective, PhasedObjective

HELD_OUT = "held-out"
"""Name under which a run's losses have that of hidden words and nothing else."""
_SEED = 0
_DIGITS = 6


@dataclass(frozen=True)
class EvaluationSet:
    """Text that is asked about and never learned from.

    Whole words, 15 percent, 80/10/10, hidden by a fixed seed: the rate of a phase does not matter.

    Args:
        corpus: the text.
        words: ids of the vocabulary.
        strategy: what hides words.
        max_length: longest row, special tokens included.
        batch_rows: rows a pass.
        task: what is asked.
    """

    corpus: Corpus
    words: SpecialTokens
    strategy: MaskStrategy
    max_length: int
    batch_rows: int = 32
    task: ObjectiveConfig = field(default_factory=ObjectiveConfig)

    def score(self, objective: Objective, accelerator: Accelerator) -> dict[str, Any]:
        """Mean loss in nats per hidden token, and the share restored.

        Every process takes part and scores every n-th batch.

        Args:
            objective: asks for hidden words.
            accelerator: of the run.
        """
        collator = self.collator()
        plans = self._plans()
        rank, world = accelerator.process_index, accelerator.num_processes
        sums = torch.zeros(3, dtype=torch.float64)
        was_training = objective.training
        objective.eval()
        # Where weights are shared out, all must run as often; batches that are over count nothing.
        for first in range(0, len(plans), world):
            counts_once = first + rank < len(plans)
            inputs, counts = collator(plans[min(first + rank, len(plans) - 1)],
                                      self.task, self.task.mask_rate)
            moved = {name: value.to(accelerator.device) for name, value in inputs.items()}
            with torch.no_grad(), accelerator.autocast():
                found = objective(**moved)
            sums += counts_once * torch.tensor(
                [float(found["mlm"]), float(found["mlm_accuracy"]), counts["masked"]],
                dtype=torch.float64)
        objective.train(was_training)
        loss, right, masked = accelerator.reduce(sums.to(accelerator.device), "sum").tolist()
        return {"loss": round(loss / max(masked, 1), _DIGITS),
                "accuracy": round(right / max(masked, 1), _DIGITS), "masked": int(masked)}

    def collator(self) -> Collator:
        """Make the collator of the text."""
        return Collator([self.corpus], self.words, False, _SEED, {self.task.masking: self.strategy})

    def _plans(self) -> list[np.ndarray]:
        """Sort samples by length into batches."""
        numbers = np.arange(len(self.corpus))
        whole = whole_documents(numbers, self.corpus.lengths, numbers)
        samples = cut_evenly(whole, [self.corpus], self.max_length)
        samples = samples[np.argsort(samples["length"], kind="stable")]
        return np.split(samples, range(self.batch_rows, len(samples), self.batch_rows))


class Evaluator:
    """Scores held-out texts amid a run, whatever the run asks at that moment.

    Args:
        objective: of the run; asks for hidden words, and nothing else, under the name `HELD_OUT`.
        words: ids of the vocabulary.
        strategy: what hides words.
        max_length: longest row, special tokens included.
        accelerator: of the run.
        batch_rows: rows a pass.
    """

    def __init__(self, objective: Objective, words: SpecialTokens, strategy: MaskStrategy,
                 max_length: int,
                 accelerator: Accelerator, batch_rows: int = EvaluationSet.batch_rows) -> None:
        assert isinstance(objective, PhasedObjective)
        self._objective = objective
        self._made_for = (words, strategy, max_length, batch_rows)
        self._accelerator = accelerator

    def score(self, corpus: Corpus | None, task: str) -> dict[str, Any] | None:
        """Score a text, if there is one, and go back to a task."""
        if corpus is None:
            return None
        self._objective.switch(HELD_OUT)
        found = EvaluationSet(corpus, *self._made_for).score(self._objective, self._accelerator)
        self._objective.switch(task)
        return found
