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
    mask_units_by_rank,
)
from bmtools.keyed_random import Purpose, bits_per_key, uniforms
from bmtools.recipes.settings import Masking

TERMS = TermList([[number, number + 1] for number in range(5, 200, 3)] + [[7], [100]])


@pytest.fixture(params=get_args(Masking))
def pick(request: pytest.FixtureRequest) -> Any:
    return make_strategy(request.param, terms=TERMS)


def shown(text: TokenBatch, pick: Any, rate: Any = 0.15) -> list[list[int]]:
    """What becomes of each sample's maskable tokens: inputs, and labels after them."""
    masked = corrupt(text, pick(text, rate), 2, np.arange(5, 200))
    return [[*masked.inputs[own].tolist(), *masked.labels[own].tolist()] for own in (
        (text.sample == number) & text.maskable for number in range(len(text.keys)))]


def test_a_sample_is_masked_alone_as_among_others(lay: Callable[..., TokenBatch], made_up: Any,
                                                  pick: Any) -> None:
    together = shown(lay(made_up, seed=4), pick)
    for number, sample in enumerate(made_up):
        assert shown(lay([sample], seed=4, numbers=[number]), pick) == [together[number]]


def test_nothing_that_cannot_be_masked_is_picked(lay: Callable[..., TokenBatch], made_up: Any,
                                                 pick: Any) -> None:
    text = lay(made_up)
    for rate in (0.15, 1.0):
        picked = pick(text, rate)
        assert picked.dtype == bool and not picked[~text.maskable].any()
    assert (pick(text, 1.0) == text.maskable).all()
    assert not pick(text, 0.0).any()


def test_strategies_say_what_they_need() -> None:
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


KEPT = {"none": 2**64 - 1, "in the highest bits": 2**16 - 1, "many": 0b111 << 61, "all": 0}


def plain_words(text: TokenBatch) -> list[list[list[int]]]:
    """The brute-force twin of `TokenBatch.words`: words as lists of tokens, for each sample."""
    found: list[list[list[int]]] = [[] for _ in range(len(text.keys))]
    for position in range(len(text.ids)):
        if not text.maskable[position]:
            continue
        sample = found[text.sample[position]]
        if sample and sample[-1][-1] == position - 1 and not text.word_starts[position]:
            sample[-1].append(position)
        else:
            sample.append([position])
    return found


def plain_take(text: TokenBatch, units: list[list[list[int]]], ranks: list[list[int]],
               rate: float) -> list[int]:
    """The brute-force twin of `mask_units_by_rank`: the masked tokens."""
    picked = []
    for number, own in enumerate(units):
        budget = sum(map(len, own)) * rate
        spent = 0
        order = sorted(range(len(own)), key=lambda n: ranks[number][n])
        for unit in (own[n] for n in order):
            if spent + len(unit) > budget:
                coin = float(uniforms(text.keys[number], 0, Purpose.CROSSING))
                if coin * len(unit) < budget - spent or (spent == 0 and rate > 0):
                    picked += unit
                break
            picked += unit
            spent += len(unit)
    return sorted(picked)


def grouped(values: np.ndarray, counts: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(values, np.cumsum(counts)[:-1])]


def test_words_are_those_of_plain_loops(lay: Callable[..., TokenBatch], made_up: Any) -> None:
    text = lay(made_up)
    units, expected = text.words, plain_words(text)
    assert np.diff(units.borders).tolist() == [len(words) for words in expected]
    assert [list(range(begin, begin + size)) for begin, size
            in zip(units.begins, units.sizes, strict=True)] == [w for one in expected for w in one]


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.15, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("ties", KEPT)
def test_budgets_are_those_of_plain_loops(lay: Callable[..., TokenBatch], made_up: Any,
                                          rate: float, ties: str) -> None:
    text = lay(made_up)
    units = text.words
    ranks = bits_per_key(text.keys, units.borders, Purpose.ORDER) & np.uint64(KEPT[ties])
    expected = plain_take(text, plain_words(text), grouped(ranks, np.diff(units.borders)), rate)
    assert np.flatnonzero(mask_units_by_rank(text, units, ranks, rate)).tolist() == expected
