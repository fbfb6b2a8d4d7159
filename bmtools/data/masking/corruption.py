"""Tokens of samples, their replacement by the mask token or random tokens, and counts."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property
from operator import add

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform
from bmtools.ragged import offsets

IGNORED = -100


@dataclass(frozen=True, eq=False)
class MaskUnits:
    """Runs of maskable tokens that are masked together or not at all.

    Args:
        begins: (units,) first token of each unit.
        sizes: (units,) tokens of each unit, 1 or more.
        borders: (samples + 1,) first unit of each sample, and the number of units.
    """

    begins: np.ndarray
    sizes: np.ndarray
    borders: np.ndarray


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The tokens of consecutive samples.

    Each sample has its own masking budget. It is a document, or the part of a document that fits
    into a sequence. A packed sequence contains several samples. Masking does not depend on
    sequences.

    Args:
        ids: (tokens,) int64.
        word_starts: (tokens,) bool, True where a word begins.
        maskable: (tokens,) bool, False on special tokens and padding.
        sample: (tokens,) int64, number of each token's sample, ascending.
        keys: (samples,) uint64, keys of all random numbers of a sample.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    maskable: np.ndarray
    sample: np.ndarray
    keys: np.ndarray

    @cached_property
    def borders(self) -> np.ndarray:
        """(samples + 1,) start of each sample, and end of the last one."""
        return self.sample.searchsorted(np.arange(len(self.keys) + 1))

    @cached_property
    def words(self) -> MaskUnits:
        """Words: maskable tokens from one word start to the next.

        A word also begins after a special token and at the start of a sample, so that the parts of
        a word that is cut there are words.
        """
        maskable = self.maskable
        apart = np.ones(len(self.ids) + 1, dtype=bool)  # separated from the previous token
        np.less_equal(maskable[1:] & maskable[:-1], self.word_starts[1:], out=apart[1:-1])
        apart[self.borders] = True
        begins = (apart[:-1] & maskable).nonzero()[0]
        sizes = (apart[1:] & maskable).nonzero()[0]
        sizes -= begins
        sizes += 1
        return MaskUnits(begins, sizes, begins.searchsorted(self.borders))


@dataclass(frozen=True, eq=False, slots=True)
class MaskedTokens:
    """Inputs and labels, (tokens,) each; labels are IGNORED on tokens that are not masked."""

    inputs: np.ndarray
    labels: np.ndarray


def corrupt(text: TokenBatch, masked: np.ndarray, mask_id: int, replacement_ids: np.ndarray,
            mask_replace_prob: float = 0.8, random_replace_prob: float = 0.1) -> MaskedTokens:
    """Replace masked tokens; each token gets its own replacement, also inside a word.

    Source: Devlin et al. 2019, section 3.1 (80, 10 and 10 percent).

    Args:
        text: tokens of all samples; not changed.
        masked: (tokens,) bool.
        mask_id: id of the mask token.
        replacement_ids: (ids,) that random tokens are sampled from with equal probability.
        mask_replace_prob: share that is replaced by the mask token.
        random_replace_prob: share that is replaced by a random token; the rest is not changed.
    """
    positions = masked.nonzero()[0]
    drawn = bits_per_key(text.keys, positions.searchsorted(text.borders), Purpose.REPLACEMENT)
    chances = to_uniform(drawn)
    originals = text.ids.take(positions)
    replaced = originals.copy()
    replaced[chances < mask_replace_prob] = mask_id
    at_random = ((chances >= mask_replace_prob)
                 & (chances < mask_replace_prob + random_replace_prob))
    replaced[at_random] = replacement_ids[choices(drawn[at_random], len(replacement_ids))]
    inputs, labels = text.ids.copy(), np.full(len(text.ids), IGNORED, dtype=text.ids.dtype)
    inputs[positions], labels[positions] = replaced, originals
    return MaskedTokens(inputs, labels)


@dataclass(frozen=True)
class Coverage:
    """Counts over any number of batches, which can be added.

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
        return self.masked / max(self.maskable, 1)

    @property
    def whole_share(self) -> float:
        """Share of touched words that are completely masked; 1 for whole-word masking."""
        return self.whole / max(self.touched, 1)


def count_coverage(text: TokenBatch, masked: np.ndarray) -> Coverage:
    """Count the masked tokens and words of a text."""
    words = text.words
    before = offsets(masked & text.maskable)
    counts = before[words.begins + words.sizes] - before[words.begins]
    return Coverage(int(words.sizes.sum()), int(counts.sum()), len(counts),
                    int((counts > 0).sum()), int((counts == words.sizes).sum()))
