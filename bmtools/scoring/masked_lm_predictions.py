"""Losses of masked language models at masked positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from bmtools.data.samples import SINGLE_SPECIALS
from bmtools.models.mlm import encode, lm_head
from bmtools.scoring.checkpoint_predictor import (
    AUTOCAST_DTYPES,
    CheckpointPredictor,
    count_threads,
    map_in_threads,
    max_predictions,
)
from bmtools.scoring.masked_lm_sequences import Sequences
from bmtools.scoring.settings import InferenceConfig

REPLACEMENTS = ("masked", "random", "same")
"""Input at a masked position: the mask token, another token, or the token itself."""


@dataclass(frozen=True, eq=False)
class MaskedSequences:
    """Sequences under some variants, each a combination and a draw.

    Args:
        sequences: before masking.
        variants: (variants, 2) indices of combination and draw.
        input_ids: (variants, tokens) int32, after corruption.
        masked: (variants, tokens) bool, positions to predict.
    """

    sequences: Sequences
    variants: np.ndarray
    input_ids: np.ndarray
    masked: np.ndarray

    def batches(self, batch_tokens: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield sequences of one length and their variants, (batch,) each, the longest first."""
        lengths = self.sequences.lengths
        order = np.argsort(-lengths, kind="stable")
        for of_one_length in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            sequences = np.repeat(of_one_length, len(self.variants))
            variants = np.tile(np.arange(len(self.variants)), len(of_one_length))
            step = max(1, batch_tokens // (int(lengths[of_one_length[0]]) + SINGLE_SPECIALS))
            for start in range(0, len(sequences), step):
                yield sequences[start:start + step], variants[start:start + step]


class TokenLosses(NamedTuple):
    """Losses at masked positions, (predictions,) each.

    Args:
        combinations: index of the combination.
        draws: index of the draw.
        texts: index of the text in its window.
        replacements: index into `REPLACEMENTS`.
        nats: loss, float64.
        correct: whether no token has a higher logit.
    """

    combinations: np.ndarray
    draws: np.ndarray
    texts: np.ndarray
    replacements: np.ndarray
    nats: np.ndarray
    correct: np.ndarray


def predict(model: CheckpointPredictor, masked: MaskedSequences,
            inference: InferenceConfig) -> Iterator[TokenLosses]:
    """Predict all masked positions; on a CPU several batches run at a time, each on one core."""
    device = _device(model)
    batches = masked.batches(inference.tokens_per_pass(device.type))
    yield from map_in_threads(partial(_predict_batch, model, masked, inference.precision), batches,
                              count_threads(inference.threads, device))


def _predict_batch(model: CheckpointPredictor, masked: MaskedSequences, precision: str,
                   batch: tuple[np.ndarray, np.ndarray]) -> TokenLosses:
    """Add special tokens to sequences of one length, and predict their masked positions."""
    numbers, variants = batch
    tokenizer, sequences = model.tokenizer, masked.sequences
    tokens = sequences.borders[numbers][:, None] + np.arange(sequences.lengths[numbers[0]])
    rows, positions = np.nonzero(masked.masked[variants[:, None], tokens])
    labels = sequences.input_ids[tokens[rows, positions]]
    input_ids = np.pad(masked.input_ids[variants[:, None], tokens].astype(np.int64),
                       ((0, 0), (1, 1)))
    input_ids[:, 0], input_ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    positions += 1
    seen = input_ids[rows, positions]
    replacements = np.where(seen == tokenizer.mask_token_id, 0, np.where(seen == labels, 2, 1))
    nats, correct = _losses(model, input_ids, rows, positions, labels, precision)
    combinations, draws = masked.variants[variants[rows]].T
    return TokenLosses(combinations, draws, sequences.texts[numbers[rows]], replacements, nats,
                       correct)


@torch.inference_mode()
def _losses(model: CheckpointPredictor, input_ids: np.ndarray, rows: np.ndarray,
            positions: np.ndarray, labels: np.ndarray,
            precision: str) -> tuple[np.ndarray, np.ndarray]:
    """Compute the loss at masked positions in nats, and whether no token has a higher logit.

    Args:
        model: masked language model.
        input_ids: (batch, tokens) int64.
        rows, positions: (predictions,) masked positions.
        labels: (predictions,) int64.
        precision: of matrix products.
    """
    network, device = model.checkpoint.model, _device(model)
    inputs, row, position, targets = (torch.from_numpy(one).to(device)
                                      for one in (input_ids, rows, positions, labels))
    dtype = AUTOCAST_DTYPES.get(precision)
    size = max_predictions(network, device)
    nats, correct = [], []
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        states = encode(network, inputs, torch.ones_like(inputs, dtype=torch.bool))[row, position]
        for part, part_targets in zip(states.split(size), targets.split(size), strict=True):
            logits = lm_head(network)(part).float()
            chosen = logits.gather(1, part_targets[:, None])[:, 0]
            nats.append(logits.logsumexp(1) - chosen)
            correct.append(chosen >= logits.amax(1))
    return torch.cat(nats).double().cpu().numpy(), torch.cat(correct).cpu().numpy()


def _device(model: CheckpointPredictor) -> torch.device:
    return torch.device(model.checkpoint.model.device)
