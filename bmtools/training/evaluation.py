"""Evaluation on held-out text, always masked alike, so that losses compare across phases."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from accelerate import Accelerator

from bmtools.data.batches import Collator, SpecialTokens
from bmtools.data.masking.strategies import MaskStrategy
from bmtools.data.samples import cut_evenly, token_counts, whole_documents
from bmtools.data.shards import Corpus
from bmtools.recipes.settings import ObjectiveConfig
from bmtools.records import JsonObject
from bmtools.status import counted
from bmtools.training.distributed import sum_over_processes
from bmtools.training.objectives import Objective

HELD_OUT = "held-out"
"""Name of the masked-LM objective for held-out text among a run's objectives."""
_SEED = 0
_DIGITS = 6


@dataclass(frozen=True)
class EvaluationSet:
    """Held-out text with a fixed mask.

    Whole words, 15 percent, 80/10/10, masked with a fixed seed; a phase's mask rate is ignored.

    Args:
        corpus: the text.
        special_tokens: of the vocabulary.
        strategy: masking strategy.
        max_length: longest sequence, with special tokens.
        batch_size: sequences of a forward pass.
        objective: masking settings.
    """

    corpus: Corpus
    special_tokens: SpecialTokens
    strategy: MaskStrategy
    max_length: int
    batch_size: int = 32
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)

    def score(self, objective: Objective, accelerator: Accelerator) -> JsonObject:
        """Compute the mean loss in nats per masked token, and the accuracy.

        Every process takes part and scores every n-th batch.

        Args:
            objective: a masked-LM objective.
            accelerator: of the run.
        """
        collator, settings, batches = self.collator(), self.objective, self._batches()
        rank, world_size = accelerator.process_index, accelerator.num_processes
        sums = torch.zeros(3, dtype=torch.float64)
        was_training = objective.training
        objective.eval()
        # With sharded weights all processes must run equally often; surplus batches do not count.
        firsts = range(0, len(batches), world_size)
        for first in counted(firsts, "evaluating held-out text", len(firsts), "batches"):
            is_own = first + rank < len(batches)
            samples = batches[min(first + rank, len(batches) - 1)]
            inputs, counts = collator(samples, settings, settings.mask_rate)
            moved = {name: value.to(accelerator.device) for name, value in inputs.items()}
            with torch.no_grad(), accelerator.autocast():
                outputs = objective(**moved)
            sums += is_own * torch.tensor(
                [float(outputs["mlm"]), float(outputs["mlm_accuracy"]), counts["masked"]],
                dtype=torch.float64)
        objective.train(was_training)
        *totals, number = sum_over_processes(sums, accelerator)
        loss, accuracy = (round(total / max(number, 1), _DIGITS) for total in totals)
        return {"loss": loss, "accuracy": accuracy, "masked": int(number)}

    def collator(self) -> Collator:
        """Make the collator of the text."""
        return Collator([self.corpus], self.special_tokens, False, _SEED,
                        {self.objective.masking: self.strategy})

    def _batches(self) -> list[np.ndarray]:
        """Sort samples by length into batches."""
        numbers = np.arange(len(self.corpus))
        samples = cut_evenly(whole_documents(numbers, self.corpus.lengths, numbers),
                             [self.corpus], self.max_length)
        samples = samples[np.argsort(token_counts(samples), kind="stable")]
        return np.split(samples, range(self.batch_size, len(samples), self.batch_size))
