"""Tokens of several samples in flat arrays, and the words and units that masks are drawn for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class MaskUnits:
    """Runs of maskable tokens that are masked together or not at all.

    Args:
        begins: (units,) first token of each.
        sizes: (units,) tokens of each, 1 or more.
        borders: (samples + 1,) where each sample's units begin among all, and where the last
            one's end.
    """

    begins: np.ndarray
    sizes: np.ndarray
    borders: np.ndarray


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The tokens of some samples, one sample after the other.

    A sample has a masking budget of its own: it is a document, or the part of one that fits a
    sequence. A packed sequence holds several samples; masking does not depend on sequences.

    Args:
        ids: (tokens,) int64.
        word_starts: (tokens,) bool, True where a word begins.
        maskable: (tokens,) bool, False on special tokens and padding.
        sample: (tokens,) int64, number of each token's sample, ascending.
        keys: (samples,) uint64, keys of all random numbers of a sample.

    Raises:
        ValueError: lengths that differ, or a sample without a key.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    maskable: np.ndarray
    sample: np.ndarray
    keys: np.ndarray

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.word_starts) == len(self.maskable) == len(self.sample):
            raise ValueError(
                f"ids, word_starts, maskable and sample: found {len(self.ids)}, "
                f"{len(self.word_starts)}, {len(self.maskable)} and {len(self.sample)} tokens, "
                "expected as many of each")
        if len(self.ids) and not 0 <= self.sample[-1] < len(self.keys):
            raise ValueError(f"sample: found number {self.sample[-1]}, "
                             f"expected 0 to {len(self.keys) - 1}, as there are keys")

    @cached_property
    def borders(self) -> np.ndarray:
        """(samples + 1,) where each sample begins, and where the last one ends."""
        return self.sample.searchsorted(np.arange(len(self.keys) + 1))

    @cached_property
    def words(self) -> MaskUnits:
        """Words: maskable tokens from one word start to the next.

        A word also begins after a special token and at the beginning of a sample, so that a word
        cut by an edge stays whole.
        """
        maskable = self.maskable
        apart = np.ones(len(self.ids) + 1, dtype=bool)  # from the token before
        np.less_equal(maskable[1:] & maskable[:-1], self.word_starts[1:], out=apart[1:-1])
        apart[self.borders] = True
        begins = (apart[:-1] & maskable).nonzero()[0]
        sizes = (apart[1:] & maskable).nonzero()[0]
        sizes -= begins
        sizes += 1
        return MaskUnits(begins, sizes, begins.searchsorted(self.borders))
