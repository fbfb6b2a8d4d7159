"""Whole-word masking."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.corruption import TokenBatch
from bmtools.data.masking.strategies import mask_words
from bmtools.keyed_random import Purpose, bits


def plain_pick(ids: list[int], starts: list[bool], key: int, rate: float) -> list[bool]:
    """The brute-force twin: one sample, with loops, drawn word by word."""
    words: list[list[int]] = []
    for position, (number, start) in enumerate(zip(ids, starts, strict=True)):
        if number < 5:
            continue
        if words and not start and words[-1][-1] == position - 1:
            words[-1].append(position)
        else:
            words.append([position])
    left, picked = sum(map(len, words)) * rate, [False] * len(ids)
    seen: set[int] = set()
    for counter in count():
        if len(seen) == len(words):
            break
        drawn = int(bits(key, counter, Purpose.ORDER))
        number = drawn % 2**32 * len(words) // 2**32
        if number in seen:
            continue
        word = words[number]
        fits = len(word) <= left
        by_chance = drawn // 2**32 / 2**32 * len(word) < left
        if fits or by_chance or (not seen and rate > 0):
            for position in word:
                picked[position] = True
        if not fits:
            break
        seen.add(number)
        left -= len(word)
    return picked


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.15, 0.4, 0.97, 1.0])
def test_masks_equal_plain_loops(lay: Callable[..., TokenBatch], made_up: Any,
                                 rate: float) -> None:
    text = lay(made_up, seed=3)
    expected = []
    for number, key in enumerate(text.keys):
        own = text.sample == number
        starts = text.word_starts[own].tolist()
        expected += plain_pick(text.ids[own].tolist(), starts, int(key), rate)
    assert mask_words(text, rate).tolist() == expected


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.4, 0.75])
def test_the_mean_rate_is_exact_for_long_words(lay: Callable[..., TokenBatch],
                                               long_words: Any, rate: float) -> None:
    counts = np.array([mask_words(text, rate).reshape(300, 200).sum(axis=1)
                       for text in (lay(long_words, seed=seed, special=False)
                                    for seed in range(20))])
    # Every sample is within a word of its budget, and the mean has no bias.
    assert np.abs(counts - 200 * rate).max() < 8
    assert abs(counts.mean() - 200 * rate) < 4 * counts.std() / np.sqrt(counts.size)
