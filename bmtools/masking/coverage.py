"""What masking achieved, counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bmtools.masking.mask_units import find_words
from bmtools.masking.token_batch import TokenBatch


@dataclass(frozen=True)
class Coverage:
    """Counts over any number of batches; they add up.

    Args:
        maskable: tokens that might have been masked.
        masked: tokens that were.
        words: words with a maskable token.
        touched: words with a masked token.
        whole: words of which every token is masked.
    """

    maskable: int = 0
    masked: int = 0
    words: int = 0
    touched: int = 0
    whole: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.maskable + other.maskable, self.masked + other.masked,
                        self.words + other.words, self.touched + other.touched,
                        self.whole + other.whole)

    @property
    def masked_share(self) -> float:
        """Masked tokens among maskable ones: the rate that was achieved; 0 where there is none."""
        return _share(self.masked, self.maskable)

    @property
    def touched_share(self) -> float:
        """Words with a masked token among all."""
        return _share(self.touched, self.words)

    @property
    def whole_share(self) -> float:
        """Words wholly masked among words with a masked token; 1 where whole words are masked."""
        return _share(self.whole, self.touched)


def count_coverage(text: TokenBatch, picked: np.ndarray) -> Coverage:
    """Count what is masked of a text, with the words of the text as they begin in `starts`."""
    words = find_words(text)
    before = np.concatenate(([0], np.cumsum(picked & text.maskable)))
    hidden = before[words.begins + words.sizes] - before[words.begins]
    return Coverage(int(words.sizes.sum()), int(hidden.sum()), len(words),
                    int((hidden > 0).sum()), int((hidden == words.sizes).sum()))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
