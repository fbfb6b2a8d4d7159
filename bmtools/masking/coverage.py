"""Counts of masked tokens and words."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from bmtools.masking.ragged import offsets
from bmtools.masking.token_batch import TokenBatch


@dataclass(frozen=True)
class Coverage:
    """Counts over any number of batches; they add up.

    Args:
        maskable: tokens that may be masked.
        masked: masked tokens.
        words: words with a maskable token.
        touched: words with a masked token.
        whole: words whose tokens are all masked.
    """

    maskable: int = 0
    masked: int = 0
    words: int = 0
    touched: int = 0
    whole: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*map(add, astuple(self), astuple(other)))

    @property
    def masked_share(self) -> float:
        """Share of maskable tokens that are masked: the achieved rate."""
        return _share(self.masked, self.maskable)

    @property
    def touched_share(self) -> float:
        """Share of words with a masked token."""
        return _share(self.touched, self.words)

    @property
    def whole_share(self) -> float:
        """Share of touched words that are wholly masked; 1 for whole-word masking."""
        return _share(self.whole, self.touched)


def count_coverage(text: TokenBatch, masked: np.ndarray) -> Coverage:
    """Count the masked tokens and words of a text."""
    words = text.words
    before = offsets(masked & text.maskable)
    counts = before[words.begins + words.sizes] - before[words.begins]
    return Coverage(int(words.sizes.sum()), int(counts.sum()), len(counts),
                    int((counts > 0).sum()), int((counts == words.sizes).sum()))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
