"""Masking of single tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.masking.strategies import mask_tokens, mask_words
from bmtools.masking.token_batch import TokenBatch


def test_each_token_is_a_word(lay: Callable[..., TokenBatch], made_up: Any) -> None:
    text = lay(made_up)
    alone = replace(text, word_starts=np.ones(len(text.ids), dtype=bool))
    assert (mask_tokens(text, 0.15) == mask_words(alone, 0.15)).all()


def test_each_sample_meets_its_budget(lay: Callable[..., TokenBatch], long_words: Any) -> None:
    text = lay(long_words)
    counts = np.bincount(text.sample[mask_tokens(text, 0.1525)], minlength=len(text.keys))
    assert set(counts.tolist()) == {30, 31}
    assert counts.mean() == pytest.approx(30.5, abs=0.12)
