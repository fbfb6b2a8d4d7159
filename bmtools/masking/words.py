"""Whole-word masking."""

from __future__ import annotations

import numpy as np


def pick_words(maskable: np.ndarray, starts: np.ndarray, rate: float,
               rng: np.random.Generator) -> np.ndarray:
    """Pick whole words until a share of each row's tokens is picked.

    Words come in random order. The word that would overshoot the budget is taken with the
    probability that makes the expected number of picked tokens equal the budget, so the rate is
    met on average whatever the length of words. A row with anything to mask gets one word at
    least, as in BERT.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        maskable: (batch, tokens) bool; False on special and padding tokens.
        starts: (batch, tokens) bool; True where a word begins.
        rate: share of maskable tokens to pick, 0 to 1.
        rng: the source of all randomness; one number is drawn a word and one a row.

    Returns:
        (batch, tokens) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"masking rate: found {rate}, expected 0 to 1")
    rows, columns = np.nonzero(maskable)
    if not len(rows):
        return np.zeros_like(maskable)
    word_of, row_of_word = _number_words(rows, columns, starts[rows, columns])
    sizes = np.bincount(word_of)
    order = np.lexsort((rng.random(len(sizes)), row_of_word))
    coins = rng.random(len(maskable))

    budgets = maskable.sum(axis=1) * rate
    before = _summed_before(sizes[order], row_of_word[order])
    left = budgets[row_of_word[order]] - before
    taken = left >= sizes[order]
    crossing = (left > 0) & ~taken
    taken |= crossing & (coins[row_of_word[order]] * sizes[order] < left)
    if rate > 0:
        taken |= before == 0
    chosen = np.empty(len(sizes), dtype=bool)
    chosen[order] = taken
    picked = np.zeros_like(maskable)
    picked[rows, columns] = chosen[word_of]
    return picked


def pick_tokens(maskable: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Pick single tokens: whole-word masking in which each token is a word."""
    return pick_words(maskable, np.ones_like(maskable), rate, rng)


def _number_words(rows: np.ndarray, columns: np.ndarray,
                  starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give each maskable token the number of its word, and each word the number of its row.

    A gap or a new row begins a word too, so that a word cut by the row's edge stays whole.
    """
    begins = starts.copy()
    begins[0] = True
    begins[1:] |= (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1] + 1)
    return np.cumsum(begins) - 1, rows[begins]


def _summed_before(sizes: np.ndarray, row_of_word: np.ndarray) -> np.ndarray:
    """Sum, for each word, the sizes of the words of its row that come before it."""
    total = np.cumsum(sizes) - sizes
    firsts = np.r_[True, row_of_word[1:] != row_of_word[:-1]]
    return total - np.maximum.accumulate(np.where(firsts, total, 0))
