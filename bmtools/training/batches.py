"""Batches by number: the same on every process and after every restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bmtools.corpus.rows import Rows, Sampler
from bmtools.masking.corruption import IGNORED, Corruption, Masked, corrupt
from bmtools.masking.words import pick_tokens, pick_words
from bmtools.training.settings import RowSettings


@dataclass(frozen=True)
class Batch:
    """The inputs of one step.

    Args:
        inputs: what the objective takes, by name, (batch, tokens) each.
        counts: what sums of losses are divided by, over the whole batch.
    """

    inputs: dict[str, Tensor]
    counts: dict[str, int]

    def share(self, process: int, processes: int) -> Batch:
        """Keep every n-th row; counts stay those of the whole batch."""
        rows = {name: value[process::processes] for name, value in self.inputs.items()}
        return Batch(rows, self.counts)


class Batches(Protocol):
    """Anything that can make batch number n."""

    def batch(self, number: int) -> Batch:
        """Make a batch from its number alone."""


class RowBatches:
    """Batches for masked or causal training from rows of a corpus.

    Masks are drawn for the whole batch from seed and number, so they do not depend on how many
    processes share it.
    """

    def __init__(self, rows: Rows, settings: RowSettings, tokenizer: Any, seed: int) -> None:
        self._rows = rows
        self._settings = settings
        self._tokenizer = tokenizer
        self._seed = seed
        self._sampler = Sampler(rows.lengths(), settings.batch_size, seed)
        self._special = np.array(sorted(tokenizer.all_special_ids))
        self._ordinary = np.setdiff1d(np.arange(len(tokenizer)), self._special)

    @property
    def per_epoch(self) -> int:
        """Batches in which every row comes up."""
        return self._sampler.batches_per_epoch

    def batch(self, number: int) -> Batch:
        """Make a batch of `batch_size` rows."""
        ids, starts, attended = self._padded(self._sampler.batch(number))
        counts = {"tokens": int(attended.sum())}
        if self._settings.objective == "causal":
            shown = _shifted(ids, attended)
            counts["predicted"] = int((shown.labels != IGNORED).sum())
        else:
            maskable = attended & ~np.isin(ids, self._special)
            shown = self._masked(ids, starts, maskable, number)
            counts |= {"masked": int((shown.labels != IGNORED).sum()),
                       "maskable": int(maskable.sum())}
        inputs = {"ids": torch.from_numpy(shown.inputs.astype(np.int64)),
                  "attended": torch.from_numpy(attended),
                  "labels": torch.from_numpy(shown.labels.astype(np.int64))}
        return Batch(inputs, counts)

    def _masked(self, ids: np.ndarray, starts: np.ndarray, maskable: np.ndarray,
                number: int) -> Masked:
        rng = np.random.default_rng((self._seed, 2, number))
        rate = self._settings.mask_rate
        picked = pick_words(maskable, starts, rate, rng) if self._settings.whole_words \
            else pick_tokens(maskable, rate, rng)
        corruption = Corruption(self._settings.masked_share, self._settings.random_share)
        return corrupt(ids, picked, self._tokenizer.mask_token_id, self._ordinary, corruption, rng)

    def _padded(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lay rows under each other between their special tokens: ids, starts, attended."""
        first, last = self._rows.borders[members], self._rows.borders[members + 1]
        lengths = last - first
        shape = (len(members), int(lengths.max()) + 2)
        inside = np.arange(shape[1] - 2) < lengths[:, None]
        source = (first[:, None] + np.arange(shape[1] - 2))[inside]

        ids = np.full(shape, self._tokenizer.pad_token_id, dtype=np.int64)
        starts = np.ones(shape, dtype=bool)
        ids[:, 1:-1][inside] = self._rows.ids[source]
        starts[:, 1:-1][inside] = self._rows.starts[source]
        ids[:, 0] = self._tokenizer.cls_token_id
        ids[np.arange(len(members)), lengths + 1] = self._tokenizer.sep_token_id
        return ids, starts, np.arange(shape[1]) < lengths[:, None] + 2


def _shifted(ids: np.ndarray, attended: np.ndarray) -> Masked:
    """Ask, at each place, for the token that comes next."""
    labels = np.full_like(ids, IGNORED)
    labels[:, :-1] = np.where(attended[:, 1:], ids[:, 1:], IGNORED)
    return Masked(ids, labels)
