"""Evaluation on held-out text, always masked alike, so that losses compare across phases."""

from __future__ import annotations

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
BATCH_SIZE = 32
"""Sequences of a forward pass, where memory does not bound them."""
_SEED = 0
_DIGITS = 6


def evaluate(objective: Objective, corpus: Corpus, special_tokens: SpecialTokens,
             strategy: MaskStrategy, max_length: int, accelerator: Accelerator,
             batch_size: int = BATCH_SIZE) -> JsonObject:
    """Compute the mean loss in nats per masked token, and the accuracy, with a fixed mask.

    Whole words, 15 percent, 80/10/10, masked with a fixed seed; a phase's mask rate is ignored.
    Every process takes part and scores every n-th batch.

    Args:
        objective: a masked-LM objective.
        corpus: the held-out text.
        special_tokens: of the vocabulary.
        strategy: masking strategy.
        max_length: longest sequence, with special tokens.
        accelerator: of the run.
        batch_size: sequences of a forward pass.
    """
    settings = ObjectiveConfig()
    collator = Collator([corpus], special_tokens, False, _SEED, {settings.masking: strategy})
    batches = sorted_batches(corpus, max_length, batch_size)
    rank, world_size = accelerator.process_index, accelerator.num_processes
    sums = torch.zeros(3, dtype=torch.float64)
    was_training = objective.training
    objective.eval()
    # With sharded weights all processes must run equally often; surplus batches do not count.
    firsts = range(0, len(batches), world_size)
    for first in counted(firsts, "evaluating held-out text", len(firsts), "batches"):
        samples = batches[min(first + rank, len(batches) - 1)]
        inputs, counts = collator(samples, settings, settings.mask_rate)
        moved = {name: value.to(accelerator.device) for name, value in inputs.items()}
        with torch.no_grad(), accelerator.autocast():
            outputs = objective(**moved)
        if first + rank < len(batches):
            sums += torch.tensor([float(outputs["mlm"]), float(outputs["mlm_accuracy"]),
                                  counts["masked"]], dtype=torch.float64)
    objective.train(was_training)
    *totals, number = sum_over_processes(sums, accelerator)
    loss, accuracy = (round(total / max(number, 1), _DIGITS) for total in totals)
    return {"loss": loss, "accuracy": accuracy, "masked": int(number)}


def sorted_batches(corpus: Corpus, max_length: int, batch_size: int) -> list[np.ndarray]:
    """Sort the samples of a text by length into batches."""
    numbers = np.arange(len(corpus))
    samples = cut_evenly(whole_documents(numbers, corpus.lengths, numbers), [corpus], max_length)
    samples = samples[np.argsort(token_counts(samples), kind="stable")]
    return np.split(samples, range(batch_size, len(samples), batch_size))
