"""Flat arrays: runs of different lengths, one after the other, and packed bits."""

from __future__ import annotations

import numpy as np


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Find where each run begins, and where the last one ends, (runs + 1,) int64."""
    sums = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=sums[1:])
    return sums


def ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Count up from the beginning of each run to its end, (sum of lengths,) int64."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return (begins - ends + lengths).repeat(lengths) + np.arange(total)


def bits_at(bits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Look up bits, eight in each uint8 and the lowest first, by their numbers; bool."""
    return (bits[numbers >> 3] >> (numbers & 7).astype(np.uint8) & 1).astype(bool)
