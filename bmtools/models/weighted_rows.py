"""Rows of a new embedding table as weighted sums of rows of an old one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


class WeightedRows(NamedTuple):
    """Weighted sums, in the form of `embedding_bag`.

    Args:
        tokens: (rows,) int64, ids of the new rows.
        sources: (terms,) int64, ids of old rows, those of a new row next to each other.
        offsets: (rows,) int64, the first term of each.
        weights: (terms,) float32.
    """

    tokens: Tensor
    sources: Tensor
    offsets: Tensor
    weights: Tensor

    @classmethod
    def means(cls, members: Mapping[int, Sequence[int]]) -> WeightedRows:
        """Average old rows with equal weights; a row counts as often as it is listed."""
        sizes = np.array([len(sources) for sources in members.values()], dtype=np.int64)
        sources = np.fromiter((one for sources in members.values() for one in sources), np.int64,
                              int(sizes.sum()))
        return cls.of(np.array([*members], dtype=np.int64), sources, sizes,
                      np.repeat(1 / np.maximum(sizes, 1), sizes))

    @classmethod
    def of(cls, tokens: np.ndarray, sources: np.ndarray, sizes: np.ndarray,
           weights: np.ndarray) -> WeightedRows:
        """Take the number of terms of each row, (rows,), in place of offsets."""
        return cls(torch.from_numpy(tokens), torch.from_numpy(sources),
                   torch.from_numpy(np.cumsum(sizes) - sizes),
                   torch.from_numpy(weights.astype(np.float32)))

    def rows(self, table: Tensor) -> Tensor:
        """Sum rows of a table of (old rows, hidden size), or numbers of (old rows,)."""
        if not len(self.tokens):
            return table[:0]
        flat = table if table.ndim == 2 else table[:, None]
        sums = functional.embedding_bag(self.sources, flat, self.offsets, mode="sum",
                                        per_sample_weights=self.weights.to(flat.dtype))
        return sums.reshape(-1, *table.shape[1:])

    def fill(self, target: Tensor, table: Tensor) -> None:
        """Write the sums of an old table's rows into a new one."""
        target[self.tokens] = self.rows(table)
