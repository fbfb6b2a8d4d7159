"""Counts of what masking achieved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bmtools.masking.coverage import Coverage, count_coverage
from bmtools.masking.token_batch import TokenBatch


def test_a_hand_worked_example(lay: Callable[..., TokenBatch]) -> None:
    # Words of 2, 1, 3 and, in a second sample, 1 and 2 tokens.
    text = lay([([9] * 6, [1, 0, 1, 1, 0, 0]), ([9] * 3, [1, 1, 0])], special=False)
    picked = np.array([1, 1, 0, 1, 1, 0, 0, 1, 1], dtype=bool)
    found = count_coverage(text, picked)
    assert found == Coverage(maskable=9, masked=6, words=5, touched=3, whole=2)
    assert (found.masked_share, found.touched_share, found.whole_share) == (6 / 9, 3 / 5,
                                                                                 2 / 3)


def test_batches_add_up(lay: Callable[..., TokenBatch]) -> None:
    text = lay([([9] * 6, [1, 0, 1, 1, 0, 0])])
    one = count_coverage(text, text.maskable)
    assert sum([one, one, one], Coverage()) == Coverage(18, 18, 9, 9, 9)


def test_what_cannot_be_masked_does_not_count(lay: Callable[..., TokenBatch]) -> None:
    text = lay([([9] * 4, [1, 0, 1, 1])])
    everything = np.ones(len(text.ids), dtype=bool)
    assert count_coverage(text, everything) == Coverage(4, 4, 3, 3, 3)
    nothing = replace(text, maskable=np.zeros(len(text.ids), dtype=bool))
    assert count_coverage(nothing, everything) == Coverage()
    assert Coverage().masked_share == Coverage().touched_share == Coverage().whole_share == 0
