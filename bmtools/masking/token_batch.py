"""What is masked: samples laid side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The tokens of some samples, one sample after the other.

    A sample is what is masked by a budget of its own: a document, or the piece of one that goes
    into a row. Rows may hold one sample or several; masking does not see rows.

    Args:
        ids: (tokens,) int64.
        starts: (tokens,) bool, True where a word begins.
        maskable: (tokens,) bool, False on special tokens and padding.
        sample: (tokens,) int64, the number of the sample that a token is of; never falls.
        keys: (samples,) uint64, what all random numbers of a sample are drawn from.

    Raises:
        ValueError: lengths that differ, or a sample without a key.
    """

    ids: np.ndarray
    starts: np.ndarray
    maskable: np.ndarray
    sample: np.ndarray
    keys: np.ndarray

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.starts) == len(self.maskable) == len(self.sample):
            raise ValueError(f"ids, starts, maskable and sample: found {len(self.ids)}, "
                             f"{len(self.starts)}, {len(self.maskable)} and {len(self.sample)} "
                             "tokens, expected as many of each")
        if len(self.ids) and not 0 <= self.sample[-1] < len(self.keys):
            raise ValueError(f"sample: found number {self.sample[-1]}, "
                             f"expected 0 to {len(self.keys) - 1}, as there are keys")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def samples(self) -> int:
        """How many samples there are; some may be without tokens."""
        return len(self.keys)

    @cached_property
    def borders(self) -> np.ndarray:
        """(samples + 1,) where each sample begins, and where the last one ends."""
        return self.sample.searchsorted(np.arange(self.samples + 1))

    @property
    def places(self) -> np.ndarray:
        """(tokens,) place of each token within its sample, from 0."""
        return np.arange(len(self)) - self.borders[self.sample]

    @property
    def maskable_counts(self) -> np.ndarray:
        """(samples,) tokens of each sample that may be masked."""
        before = self.borders - self.borders_among((~self.maskable).nonzero()[0])
        return before[1:] - before[:-1]

    @cached_property
    def continues(self) -> np.ndarray:
        """(tokens,) bool, True where a maskable token follows another of its sample."""
        follows = self.maskable.copy()
        follows[1:] &= self.maskable[:-1]
        follows[self.borders[:-1][np.diff(self.borders) > 0]] = False
        return follows

    def borders_among(self, places: np.ndarray) -> np.ndarray:
        """Find where each sample's places begin among those of all samples.

        Args:
            places: (places,) numbers of tokens, rising.

        Returns:
            (samples + 1,) int64; the last is the number of places.
        """
        return places.searchsorted(self.borders)
