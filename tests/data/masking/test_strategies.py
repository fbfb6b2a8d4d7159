"""All strategies: by name, and each sample for itself; masking of single tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from bmtools.data.masking.corruption import TokenBatch, corrupt
from bmtools.data.masking.strategies import (
    TermList,
    make_strategy,
    mask_tokens,
)
from bmtools.recipes.settings import Masking

TERMS = TermList([[number, number + 1] for number in range(5, 200, 3)] + [[7], [100]])


@pytest.fixture(params=get_args(Masking))
def pick(request: pytest.FixtureRequest) -> Any:
    return make_strategy(request.param, terms=TERMS)


def shown(text: TokenBatch, pick: Any, rate: Any = 0.15) -> list[list[int]]:
    """Inputs of each sample's maskable tokens, followed by their labels."""
    masked = corrupt(text, pick(text, rate), 2, np.arange(5, 200))
    return [[*masked.inputs[own].tolist(), *masked.labels[own].tolist()] for own in (
        (text.sample == number) & text.maskable for number in range(len(text.keys)))]


def test_masks_of_a_sample_do_not_depend_on_others(lay: Callable[..., TokenBatch], made_up: Any,
                                                   pick: Any) -> None:
    together = shown(lay(made_up, seed=4), pick)
    for number, sample in enumerate(made_up):
        assert shown(lay([sample], seed=4, numbers=[number]), pick) == [together[number]]


def test_only_maskable_tokens_are_masked(lay: Callable[..., TokenBatch], made_up: Any,
                                         pick: Any) -> None:
    text = lay(made_up)
    for rate in (0.15, 1.0):
        picked = pick(text, rate)
        assert picked.dtype == bool and not picked[~text.maskable].any()
    assert (pick(text, 1.0) == text.maskable).all()
    assert not pick(text, 0.0).any()


def test_missing_terms_and_unknown_strategies_are_errors() -> None:
    for name in get_args(Masking):
        assert callable(make_strategy(name, terms=TERMS))
    with pytest.raises(ValueError, match="masking terms: found no terms, expected terms"):
        make_strategy("terms")
    with pytest.raises(ValueError, match="masking: found other, expected tokens or words or"):
        make_strategy("other")


def test_each_sample_meets_its_budget(lay: Callable[..., TokenBatch], long_words: Any) -> None:
    text = lay(long_words)
    counts = np.bincount(text.sample[mask_tokens(text, 0.1525)], minlength=len(text.keys))
    assert set(counts.tolist()) == {30, 31}
    assert counts.mean() == pytest.approx(30.5, abs=0.12)
