"""Held-out text, always masked the same way, so that losses compare across steps and phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from bmtools.corpus.shards import Corpus
from bmtools.masking.strategies import Pick
from bmtools.training.batches import Maker, Words
from bmtools.training.objectives import MaskedObjective
from bmtools.training.pairs import NO_PAIR, SAMPLE
from bmtools.training.settings import TaskSettings
from bmtools.training.stream import RowPlan, cut_alike

TASK = TaskSettings()
_SEED = 0


@dataclass(frozen=True)
class HeldOut:
    """Text that is asked about and never learned from.

    Whole words, 15 percent, 80/10/10, hidden by a fixed seed: the rate of a phase does not matter.

    Args:
        corpus: the text.
        words: ids of the vocabulary.
        strategy: what hides words.
        row_tokens: longest row, special tokens included.
        batch_rows: rows a pass.
    """

    corpus: Corpus
    words: Words
    strategy: Pick
    row_tokens: int
    batch_rows: int = 32

    def score(self, objective: MaskedObjective, accelerator: Accelerator) -> dict[str, Any]:
        """Mean loss in nats per hidden token, and the share restored; every process takes part."""
        maker = Maker([self.corpus], self.words, False, _SEED, {TASK.masking: self.strategy})
        plans = self._plans()
        sums = torch.zeros(3, dtype=torch.float64)
        was_training = objective.training
        objective.eval()
        for plan in plans:
            inputs, counts = maker.make(plan, TASK, TASK.mask_rate)
            moved = {name: value.to(accelerator.device) for name, value in inputs.items()}
            with torch.inference_mode(), accelerator.autocast():
                found = objective(**moved)
            sums += torch.tensor([float(found["mlm"]), float(found["mlm_accuracy"]),
                                  counts["masked"]], dtype=torch.float64)
        objective.train(was_training)
        loss, right, masked = sums.tolist()
        return {"loss": round(loss / max(masked, 1), 6),
                "accuracy": round(right / max(masked, 1), 6), "masked": int(masked)}

    def _plans(self) -> list[RowPlan]:
        """Rows of like length, a batch each."""
        whole = np.zeros(len(self.corpus), dtype=SAMPLE)
        whole["document"] = whole["draw"] = np.arange(len(self.corpus))
        whole["length"] = self.corpus.lengths
        whole[["other", "other_first", "other_length", "related"]] = NO_PAIR
        samples = cut_alike(whole, [self.corpus], self.row_tokens)
        samples = samples[np.argsort(samples["length"], kind="stable")]
        return [RowPlan(part, np.arange(len(part)))
                for part in np.split(samples, range(self.batch_rows, len(samples),
                                                    self.batch_rows))]
