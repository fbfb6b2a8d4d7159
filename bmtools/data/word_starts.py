"""Word starts as bits, and offsets that move back to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bmtools.ragged import bits_at


@dataclass(frozen=True)
class WordStarts:
    """Word starts of some documents, in memory.

    Args:
        bits: uint8, a bit a token, the lowest first; 1 where a word begins.
        origins: (documents,) bit of each document's first token.
        lengths: (documents,) tokens of each.
    """

    bits: np.ndarray
    origins: np.ndarray
    lengths: np.ndarray

    def at_or_before(self, documents: np.ndarray, offsets: np.ndarray, slack: int) -> np.ndarray:
        """Move offsets back to word starts.

        Args:
            documents: (offsets,) indices of the documents here.
            offsets: (offsets,) tokens within each, 0 to its length, which counts as a border.
            slack: most tokens to go back; an offset without a word start there is kept.
        """
        origins, found = self.origins[documents], offsets.copy()
        open_ = np.flatnonzero((offsets > 0) & (offsets < self.lengths[documents]))
        for back in range(slack + 1):
            wanted = offsets[open_] - back
            hit = bits_at(self.bits, origins[open_] + wanted) | (wanted == 0)
            found[open_[hit]] = wanted[hit]
            open_ = open_[~hit]
            if not len(open_):
                break
        return found

    def contain(self, documents: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Check which tokens begin a word, bool; arguments as for `at_or_before`."""
        return bits_at(self.bits, self.origins[documents] + offsets)


def join(every: list[WordStarts]) -> WordStarts:
    """Join word starts; the documents of the first come first."""
    begins = np.cumsum([0, *(8 * len(one.bits) for one in every[:-1])])
    return WordStarts(
        np.concatenate([one.bits for one in every]),
        np.concatenate([one.origins + begin for one, begin in zip(every, begins, strict=True)]),
        np.concatenate([one.lengths for one in every]))
