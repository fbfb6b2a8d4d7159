"""Masking of single tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.masking.text import Text
from bmtools.masking.tokens import pick_tokens
from bmtools.masking.words import pick_words


def test_each_token_is_a_word(lay: Callable[..., Text], made_up: Any) -> None:
    text = lay(made_up)
    alone = replace(text, starts=np.ones(len(text), dtype=bool))
    assert (pick_tokens(text, 0.15) == pick_words(alone, 0.15)).all()


def test_each_sample_meets_its_budget(lay: Callable[..., Text], long_words: Any) -> None:
    text = lay(long_words)
    counts = np.diff(text.borders_among(np.flatnonzero(pick_tokens(text, 0.1525))))
    assert set(counts.tolist()) == {30, 31}
    assert counts.mean() == pytest.approx(30.5, abs=0.12)
