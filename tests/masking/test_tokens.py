"""Masking of single tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.masking.token_batch import TokenBatch
from bmtools.masking.tokens import mask_tokens
from bmtools.masking.words import mask_words


def test_each_token_is_a_word(lay: Callable[..., TokenBatch], made_up: Any) -> None:
    text = lay(made_up)
    alone = replace(text, starts=np.ones(len(text), dtype=bool))
    assert (mask_tokens(text, 0.15) == mask_words(alone, 0.15)).all()


def test_each_sample_meets_its_budget(lay: Callable[..., TokenBatch], long_words: Any) -> None:
    text = lay(long_words)
    counts = np.diff(text.borders_among(np.flatnonzero(mask_tokens(text, 0.1525))))
    assert set(counts.tolist()) == {30, 31}
    assert counts.mean() == pytest.approx(30.5, abs=0.12)
