"""Flat arrays: runs of different lengths, one after the other, and packed bits."""

from __future__ import annotations

import numpy as np


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Return the start of each run and the end of the last run, (runs + 1,) int64."""
    sums = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=sums[1:])
    return sums


def ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the indices of each run, from its start to its end, (sum of lengths,) int64."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return (begins - ends + lengths).repeat(lengths) + np.arange(total)


def bits_at(bits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return bits by their numbers, as bool; each uint8 holds eight bits, the lowest first."""
    return (bits[numbers >> 3] >> (numbers & 7).astype(np.uint8) & 1).astype(bool)
