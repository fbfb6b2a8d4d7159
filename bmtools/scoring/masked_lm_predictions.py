"""What models answer at the places that are hidden in rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from bmtools.models.mlm import encode, vocabulary_logits
from bmtools.scoring.checkpoint_predictor import (
    AUTOCAST_DTYPES,
    CheckpointPredictor,
    count_threads,
    map_in_threads,
    max_predictions,
)
from bmtools.scoring.masked_lm_sequences import SPECIALS, Sequences
from bmtools.scoring.settings import InferenceConfig

FATES = ("masked", "random", "same")
"""What the model sees of a hidden token: the mask token, another token, or the token itself."""


@dataclass(frozen=True, eq=False)
class MaskedBatches:
    """Rows under some pairs of combination and draw.

    Args:
        rows: what was hidden in.
        pairs: (pairs, 2) numbers of combination and draw.
        inputs: (pairs, tokens) int32, what the model sees.
        asked: (pairs, tokens) bool, where it is asked.
    """

    rows: Sequences
    pairs: np.ndarray
    inputs: np.ndarray
    asked: np.ndarray

    def batches(self, batch_tokens: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows of one length and their pairs, (batch,) each, the longest first."""
        lengths = self.rows.lengths
        order = np.argsort(-lengths, kind="stable")
        for alike in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            numbers = np.repeat(alike, len(self.pairs))
            pairs = np.tile(np.arange(len(self.pairs)), len(alike))
            step = max(1, batch_tokens // (int(lengths[alike[0]]) + SPECIALS))
            for start in range(0, len(numbers), step):
                yield numbers[start:start + step], pairs[start:start + step]


class TokenLosses(NamedTuple):
    """Places that were asked, (asked,) each.

    Args:
        combinations: number of the combination.
        draws: number of the draw.
        texts: number of the text in its window.
        fates: number of what the model saw.
        nats: loss, float64.
        right: whether no token stands before the right one.
    """

    combinations: np.ndarray
    draws: np.ndarray
    texts: np.ndarray
    fates: np.ndarray
    nats: np.ndarray
    right: np.ndarray


def answers(model: CheckpointPredictor, grid: MaskedBatches,
            passes: InferenceConfig) -> Iterator[TokenLosses]:
    """Ask a model at all places; on a CPU several batches are at work, each on one core."""
    work = partial(_answer, model, grid, passes.precision)
    device = _device(model)
    batches = grid.batches(passes.tokens_per_pass(device.type))
    yield from map_in_threads(work, batches, count_threads(passes.threads, device))


def _answer(model: CheckpointPredictor, grid: MaskedBatches, precision: str,
            batch: tuple[np.ndarray, np.ndarray]) -> TokenLosses:
    """Lay rows of one length out with their special tokens, and ask about them."""
    numbers, pairs = batch
    borders = grid.rows.borders
    begins, length = borders[numbers], int(borders[numbers[0] + 1] - borders[numbers[0]])
    places = begins[:, None] + np.arange(length)
    row, place = np.nonzero(grid.asked[pairs[:, None], places])
    ids = np.empty((len(numbers), length + SPECIALS), dtype=np.int64)
    ids[:, 0], ids[:, -1] = model.tokenizer.cls_token_id, model.tokenizer.sep_token_id
    ids[:, 1:-1] = grid.inputs[pairs[:, None], places]
    wanted, seen = grid.rows.ids[places[row, place]], ids[row, place + 1]
    fates = np.where(seen == model.tokenizer.mask_token_id, 0, np.where(seen == wanted, 2, 1))
    nats, right = _losses(model, ids, row, place + 1, wanted, precision)
    combinations, draws = grid.pairs[pairs[row]].T
    return TokenLosses(combinations, draws, grid.rows.texts[numbers[row]], fates, nats, right)


@torch.inference_mode()
def _losses(model: CheckpointPredictor, ids: np.ndarray, rows: np.ndarray, places: np.ndarray,
            wanted: np.ndarray, precision: str) -> tuple[np.ndarray, np.ndarray]:
    """Give the loss of each asked place in nats, and whether no token has a higher logit.

    Args:
        model: masked language model.
        ids: (batch, tokens) int64.
        rows, places: (asked,) what is asked.
        wanted: (asked,) int64 right answers.
        precision: what matrices are multiplied in.
    """
    network, device = model.checkpoint.model, _device(model)
    inputs, row, place, labels = (torch.from_numpy(one).to(device)
                                  for one in (ids, rows, places, wanted))
    dtype = AUTOCAST_DTYPES.get(precision)
    size = max_predictions(network, device)
    nats, right = [], []
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        states = encode(network, inputs, torch.ones_like(inputs, dtype=torch.bool))[row, place]
        for part, asked in zip(states.split(size), labels.split(size), strict=True):
            found = vocabulary_logits(network, part).float()
            chosen = found.gather(1, asked[:, None])[:, 0]
            nats.append(found.logsumexp(1) - chosen)
            right.append(chosen >= found.amax(1))
    return (torch.cat(nats).double().cpu().numpy(), torch.cat(right).cpu().numpy())


def _device(model: CheckpointPredictor) -> torch.device:
    return torch.device(model.checkpoint.model.device)
