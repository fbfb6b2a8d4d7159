"""Samples, words and their borders in flat arrays."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.data.masking.strategies import mask_words
from bmtools.data.masking.token_batch import TokenBatch

NONE = np.zeros(0, dtype=np.int64)


def example() -> TokenBatch:
    """Samples of 3, 0, 2 and 0 tokens; the first token cannot be masked."""
    return TokenBatch(np.arange(5), np.ones(5, dtype=bool), np.array([0, 1, 1, 1, 1], dtype=bool),
                      np.array([0, 0, 0, 2, 2]), np.arange(4, dtype=np.uint64))


def test_borders_of_samples_and_words() -> None:
    text = example()
    assert text.borders.tolist() == [0, 3, 3, 5, 5]
    assert text.words.begins.tolist() == [1, 2, 3, 4]
    assert text.words.borders.tolist() == [0, 2, 2, 4, 4]
    assert mask_words(text, 1.0).tolist() == text.maskable.tolist()


def test_nothing_at_all() -> None:
    text = TokenBatch(NONE, NONE.astype(bool), NONE.astype(bool), NONE, NONE.astype(np.uint64))
    assert text.borders.tolist() == [0]
    assert text.words.begins.tolist() == mask_words(text, 0.5).tolist() == []


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="found 5, 4, 5 and 5 tokens"):
        TokenBatch(np.arange(5), np.ones(4, dtype=bool), np.ones(5, dtype=bool),
                   np.zeros(5, dtype=int),
                   np.zeros(1, dtype=np.uint64))


def test_every_sample_needs_a_key() -> None:
    with pytest.raises(ValueError, match="found number 1, expected 0 to 0"):
        TokenBatch(np.arange(2), np.ones(2, dtype=bool), np.ones(2, dtype=bool), np.array([0, 1]),
                   np.zeros(1, dtype=np.uint64))
