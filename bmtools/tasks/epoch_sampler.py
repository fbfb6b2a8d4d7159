"""Which examples make batch number n of fine-tuning."""

from __future__ import annotations

import numpy as np

_WINDOW_BATCHES = 64


class EpochSampler:
    """Which examples make batch number n: a function of seed and n alone, so nothing to restore.

    An epoch is a permutation of the examples; its last batch may be short. Within windows of some
    batches examples are sorted by length, to pad little, and the batches are shuffled again.

    Args:
        lengths: (examples,) tokens of each example.
        batch_rows: examples in each batch.
        seed: seed of the order.
    """

    def __init__(self, lengths: np.ndarray, batch_rows: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_rows = batch_rows
        self._seed = seed
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    @property
    def batches_per_epoch(self) -> int:
        """Batches in which every example comes up."""
        return -(-len(self._lengths) // self._batch_rows)

    def batch(self, number: int) -> np.ndarray:
        """Name the examples of a batch, (batch_rows,) or fewer."""
        epoch, place = divmod(number, self.batches_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._batches_of(epoch))
        return self._epoch[1][place]

    def _batches_of(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng((self._seed, epoch))
        members = rng.permutation(len(self._lengths))
        batches: list[np.ndarray] = []
        for start in range(0, len(members), self._batch_rows * _WINDOW_BATCHES):
            window = members[start:start + self._batch_rows * _WINDOW_BATCHES]
            ranked = window[np.argsort(self._lengths[window], kind="stable")]
            cuts = range(self._batch_rows, len(ranked), self._batch_rows)
            alike = np.split(ranked, cuts)
            batches.extend(alike[place] for place in rng.permutation(len(alike)))
        return batches
