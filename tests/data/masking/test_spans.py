"""Masking of spans of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.corruption import TokenBatch
from bmtools.data.masking.strategies import mask_spans, span_length_chances
from bmtools.keyed_random import Purpose, bits, uniforms


def plain_pick(text: TokenBatch, number: int, rate: float) -> list[int]:
    """The brute-force twin: draw span after span, hide word after word until the budget."""
    words = text.words
    first, last = words.borders[number:number + 2].tolist()
    own = [list(range(b, b + s)) for b, s in zip(words.begins[first:last].tolist(),
                                                 words.sizes[first:last].tolist(), strict=True)]
    key = int(text.keys[number])
    left, hidden = sum(map(len, own)) * rate, []
    for start in sorted(range(len(own)), key=lambda n: int(bits(key, n, Purpose.ORDER)) >> 32):
        for word in range(start, start + min(plain_length(key, start), len(own))):
            word %= len(own)
            if own[word][0] in hidden:
                continue
            if len(own[word]) > left:
                coin = float(uniforms(key, 0, Purpose.CROSSING))
                taken = coin * len(own[word]) < left or (not hidden and rate > 0)
                return hidden + own[word] * taken
            hidden += own[word]
            left -= len(own[word])
    return hidden


def plain_length(key: int, start: int) -> int:
    """Return the first length at which the summed probabilities exceed the sampled number."""
    drawn, total = float(uniforms(key, start, Purpose.SPAN_LENGTH)), 0.0
    for length in range(1, 10):
        total += 0.2 * 0.8 ** (length - 1) / (1 - 0.8**10)
        if drawn < total:
            return length
    return 10


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.15, 0.5, 1.0])
def test_masks_equal_plain_loops(lay: Callable[..., TokenBatch], made_up: Any,
                                 rate: float) -> None:
    text = lay(made_up, seed=5)
    expected = sorted(position for number in range(len(text.keys))
                      for position in plain_pick(text, number, rate))
    assert np.flatnonzero(mask_spans(text, rate)).tolist() == expected


def test_span_lengths_match_the_paper() -> None:
    # Joshi et al. 2020, section 3.1 and figure 2: 22 % of length 1, mean 3.8.
    chances = span_length_chances()
    assert chances[0] == pytest.approx(0.22, abs=0.005)
    assert sum(chances) == pytest.approx(1)
    assert np.dot(chances, np.arange(1, 11)) == pytest.approx(3.8, abs=0.005)
    assert np.divide(chances[1:], chances[:-1]) == pytest.approx(np.full(9, 0.8))


@pytest.mark.parametrize("words", [7, 40])
def test_every_position_of_a_sample_has_equal_probability(lay: Callable[..., TokenBatch],
                                                          words: int) -> None:
    samples = 20_000
    text = lay([(list(range(9, 9 + words)), [True] * words)] * samples, special=False)
    shares = mask_spans(text, 0.15).reshape(samples, words).mean(axis=0)
    if words == 40:
        assert shares.mean() == pytest.approx(0.15, abs=0.001)
    assert np.abs(shares - shares.mean()).max() < 4.5 * np.sqrt(0.15 * 0.85 / samples)
