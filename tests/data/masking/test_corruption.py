"""Replacements of masked tokens, and counts of masked tokens and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.corruption import IGNORED, Coverage, TokenBatch, corrupt, count_coverage
from bmtools.data.masking.strategies import mask_tokens, mask_words

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


def test_strangers_are_as_likely_as_each_other(text: TokenBatch) -> None:
    shown = corrupt(text, text.maskable, MASK_ID, STRANGERS, 0.5, 0.5)
    drawn = shown.inputs[shown.inputs >= 1000] - 1000
    counts = np.bincount(drawn, minlength=95)
    chi_square = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    assert abs(chi_square - 94) < 4 * np.sqrt(2 * 94)


def test_fates_say_nothing_about_places_or_neighbours(text: TokenBatch) -> None:
    shown = corrupt(text, text.maskable, MASK_ID, STRANGERS, 0.5, 0.5)
    fates = (shown.inputs[text.maskable] == MASK_ID).reshape(300, 200)
    assert np.abs(fates.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(300)
    assert np.abs(fates.mean(axis=1) - 0.5).max() < 4.5 * 0.5 / np.sqrt(200)
    alike = (fates[:, 1:] == fates[:, :-1]).mean()
    assert abs(alike - 0.5) < 4 * 0.5 / np.sqrt(300 * 199)


def test_a_hand_worked_example(lay: Callable[..., TokenBatch]) -> None:
    # Words of 2, 1, 3 and, in a second sample, 1 and 2 tokens.
    text = lay([([9] * 6, [1, 0, 1, 1, 0, 0]), ([9] * 3, [1, 1, 0])], special=False)
    picked = np.array([1, 1, 0, 1, 1, 0, 0, 1, 1], dtype=bool)
    found = count_coverage(text, picked)
    assert found == Coverage(maskable=9, masked=6, words=5, touched=3, whole=2)
    assert (found.masked_share, found.whole_share) == (6 / 9, 2 / 3)


def test_what_cannot_be_masked_does_not_count(lay: Callable[..., TokenBatch]) -> None:
    text = lay([([9] * 4, [1, 0, 1, 1])])
    everything = np.ones(len(text.ids), dtype=bool)
    assert count_coverage(text, everything) == Coverage(4, 4, 3, 3, 3)
    nothing = replace(text, maskable=np.zeros(len(text.ids), dtype=bool))
    assert count_coverage(nothing, everything) == Coverage()
    assert Coverage().masked_share == Coverage().whole_share == 0




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
