"""Units that are hidden together, and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.mask_units import mask_units_by_rank
from bmtools.data.masking.token_batch import TokenBatch
from bmtools.keyed_random import Purpose, bits_per_key, uniforms
from bmtools.ragged import ranges

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
               rates: list[float]) -> list[int]:
    """The brute-force twin of `mask_units_by_rank`: the masked tokens."""
    picked = []
    for number, (own, rate) in enumerate(zip(units, rates, strict=True)):
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


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.15, 0.5, 0.9, 1.0, "of each sample"])
@pytest.mark.parametrize("ties", KEPT)
def test_budgets_are_those_of_plain_loops(lay: Callable[..., TokenBatch], made_up: Any,
                                          rate: float | str, ties: str) -> None:
    text = lay(made_up)
    rates = np.linspace(0, 1, len(text.keys)) if isinstance(rate, str) else np.full(60, rate)
    units = text.words
    counts = np.diff(units.borders)
    ranks = bits_per_key(text.keys, units.borders, Purpose.ORDER)
    ranks = ranks & np.uint64(KEPT[ties])
    expected = plain_take(text, plain_words(text), grouped(ranks, counts), rates.tolist())
    assert np.flatnonzero(mask_units_by_rank(text, units, ranks, rates)).tolist() == expected
    if not isinstance(rate, str):
        assert np.flatnonzero(mask_units_by_rank(text, units, ranks, rate)).tolist() == expected


def test_units_of_low_rank_need_not_suffice(lay: Callable[..., TokenBatch],
                                            long_words: Any) -> None:
    text = lay(long_words[:20])
    units = text.words
    counts = np.diff(units.borders)
    drawn = bits_per_key(text.keys, units.borders, Purpose.ORDER)
    ranks = np.uint64(2**64 - 1) - (drawn >> np.uint64(10))
    expected = plain_take(text, plain_words(text), grouped(ranks, counts), [0.15] * 20)
    assert np.flatnonzero(mask_units_by_rank(text, units, ranks, 0.15)).tolist() == expected


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), np.array([0.1, 2.0])])
def test_a_rate_is_a_share(lay: Callable[..., TokenBatch], rate: Any) -> None:
    text = lay([([9], [True]), ([9], [True])])
    with pytest.raises(ValueError, match=r"masking rate: found .*, expected 0 to 1"):
        mask_units_by_rank(text, text.words, np.zeros(2, dtype=np.uint64), rate)


def test_rates_are_one_or_as_many_as_samples(lay: Callable[..., TokenBatch]) -> None:
    text = lay([([9], [True]), ([9], [True])])
    with pytest.raises(ValueError, match="expected 1 or 2"):
        mask_units_by_rank(text, text.words, np.zeros(2, dtype=np.uint64), np.full(3, 0.1))


def test_ranges() -> None:
    found = ranges(np.array([5, 0, 7]), np.array([2, 0, 3]))
    assert found.tolist() == [5, 6, 7, 8, 9]
    assert ranges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).tolist() == []
