"""Batches of fine-tuning: each a function of seed and number, every example once an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
import torch

from bmtools.data.batches import RankBatch
from bmtools.masking.corruption import IGNORED
from bmtools.tasks.task import InputT, Task

_BUFFERED_BATCHES = 64


class EpochSampler:
    """Order of examples: batch n is a function of seed and n alone, so there is no state to save.

    An epoch is a permutation of the examples; its last batch may be short. Examples of some
    batches at a time are sorted by length, which keeps padding low, and the batches are shuffled
    again.

    Args:
        lengths: (examples,) tokens of each example.
        batch_size: examples in each batch.
        seed: seed of the order.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    @property
    def batches_per_epoch(self) -> int:
        """Batches that contain every example once."""
        return -(-len(self._lengths) // self._batch_size)

    def batch(self, number: int) -> np.ndarray:
        """Return the indices of a batch's examples, (batch_size,) or fewer."""
        epoch, index = divmod(number, self.batches_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._shuffle(epoch))
        return self._epoch[1][index]

    def _shuffle(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self._lengths))
        batches: list[np.ndarray] = []
        size = self._batch_size * _BUFFERED_BATCHES
        for start in range(0, len(order), size):
            buffer = order[start:start + size]
            by_length = buffer[np.argsort(self._lengths[buffer], kind="stable")]
            similar = np.split(by_length, range(self._batch_size, len(buffer), self._batch_size))
            batches.extend(similar[index] for index in rng.permutation(len(similar)))
        return batches


class EpochBatches(Generic[InputT]):
    """Collated batches of a task's training inputs, in the order of an `EpochSampler`.

    Args:
        task: collates inputs and their labels.
        inputs: to learn from.
        batch_size: inputs a step; the last batch of an epoch may be smaller.
        seed: seed of the order.
    """

    def __init__(self, task: Task[Any, InputT], inputs: Sequence[InputT], batch_size: int,
                 seed: int) -> None:
        self._task = task
        self._inputs = inputs
        lengths = np.array([len(item) for item in inputs])
        self._sampler = EpochSampler(lengths, batch_size, seed)

    @property
    def per_epoch(self) -> int:
        """Batches that contain every input once."""
        return self._sampler.batches_per_epoch

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make one process's part of a batch from its number alone."""
        inputs = [self._inputs[index]
                  for index in self._sampler.batch(number)[rank::world_size]]
        batch = self._task.collate(inputs)
        labels = self._task.collate_labels(inputs, batch)
        tensors = {name: torch.from_numpy(value)
                   for name, value in {**batch, "labels": labels}.items()}
        return RankBatch([tensors], {"tokens": int(batch["attention_mask"].sum()),
                                     "labels": int((labels != IGNORED).sum())})
