"""New rows of a table as weighted sums of old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class WeightedRows:
    """What new rows are mixed of.

    Args:
        tokens: (rows,) int64, ids of the new rows.
        sources: (terms,) int64, ids of old rows, those of a new row next to each other.
        begins: (rows,) int64, the first term of each.
        weights: (terms,) float32.
    """

    tokens: Tensor
    sources: Tensor
    begins: Tensor
    weights: Tensor

    @classmethod
    def means(cls, members: Mapping[int, Sequence[int]]) -> WeightedRows:
        """Mix each new row of old ones in equal parts, an old one as often as it is named."""
        sizes = np.array([len(parts) for parts in members.values()], dtype=np.int64)
        sources = np.fromiter((part for parts in members.values() for part in parts), np.int64,
                              int(sizes.sum()))
        return cls.of(np.array([*members], dtype=np.int64), sources, sizes,
                      np.repeat(1 / np.maximum(sizes, 1), sizes))

    @classmethod
    def of(cls, tokens: np.ndarray, sources: np.ndarray, sizes: np.ndarray,
           weights: np.ndarray) -> WeightedRows:
        """Take (rows,) sizes in place of begins."""
        return cls(torch.from_numpy(tokens), torch.from_numpy(sources),
                   torch.from_numpy(np.cumsum(sizes) - sizes),
                   torch.from_numpy(weights.astype(np.float32)))

    def rows(self, table: Tensor) -> Tensor:
        """Mix rows of (old rows, width), or numbers of (old rows,)."""
        if not len(self.tokens):
            return table[:0]
        flat = table if table.ndim == 2 else table[:, None]
        mixed = functional.embedding_bag(self.sources, flat, self.begins, mode="sum",
                                         per_sample_weights=self.weights.to(flat.dtype))
        return mixed.reshape(-1, *table.shape[1:])

    def fill(self, target: Tensor, table: Tensor) -> None:
        """Write the mixed rows of an old table into a new one."""
        target[self.tokens] = self.rows(table)
