"""Replacements of masked tokens, and counts of masked tokens and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.corruption import IGNORED, Coverage, TokenBatch, corrupt, count_coverage
from bmtools.data.masking.strategies import mask_tokens

MASK_ID = 2
STRANGERS = np.arange(1000, 1095)


@pytest.fixture(scope="module")
def text(lay: Callable[..., TokenBatch], long_words: Any) -> TokenBatch:
    return lay(long_words)


@pytest.mark.parametrize(("masked", "random"), [(0.8, 0.1), (0.9, 0.05), (1.0, 0.0), (0.0, 1.0),
                                                (0.5, 0.0)])
def test_shares_and_labels(text: TokenBatch, masked: float, random: float) -> None:
    picked = mask_tokens(text, 0.3)
    before = text.ids.copy()
    shown = corrupt(text, picked, MASK_ID, STRANGERS, masked, random)
    assert (text.ids == before).all()
    assert (shown.inputs[~picked] == text.ids[~picked]).all()
    assert (shown.labels == np.where(picked, text.ids, IGNORED)).all()
    hidden = shown.inputs[picked] == MASK_ID
    swapped = np.isin(shown.inputs[picked], STRANGERS)
    kept = shown.inputs[picked] == text.ids[picked]
    assert (hidden ^ swapped ^ kept).all()
    for found, share in ((hidden, masked), (swapped, random), (kept, 1 - masked - random)):
        error = np.sqrt(share * (1 - share) / picked.sum())
        assert abs(found.mean() - share) <= 4 * error + 1e-12


def test_random_replacements_have_equal_probability(text: TokenBatch) -> None:
    shown = corrupt(text, text.maskable, MASK_ID, STRANGERS, 0.5, 0.5)
    drawn = shown.inputs[shown.inputs >= 1000] - 1000
    counts = np.bincount(drawn, minlength=95)
    chi_square = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    assert abs(chi_square - 94) < 4 * np.sqrt(2 * 94)


def test_corruption_of_an_example_by_hand(lay: Callable[..., TokenBatch]) -> None:
    # Words of 2, 1, 3 and, in a second sample, 1 and 2 tokens.
    text = lay([([9] * 6, [1, 0, 1, 1, 0, 0]), ([9] * 3, [1, 1, 0])], special=False)
    picked = np.array([1, 1, 0, 1, 1, 0, 0, 1, 1], dtype=bool)
    found = count_coverage(text, picked)
    assert found == Coverage(maskable=9, masked=6, words=5, touched=3, whole=2)
    assert (found.masked_share, found.whole_share) == (6 / 9, 2 / 3)


def test_only_maskable_tokens_are_counted(lay: Callable[..., TokenBatch]) -> None:
    text = lay([([9] * 4, [1, 0, 1, 1])])
    everything = np.ones(len(text.ids), dtype=bool)
    assert count_coverage(text, everything) == Coverage(4, 4, 3, 3, 3)
    nothing = replace(text, maskable=np.zeros(len(text.ids), dtype=bool))
    assert count_coverage(nothing, everything) == Coverage()
    assert Coverage().masked_share == Coverage().whole_share == 0
