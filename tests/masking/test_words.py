"""Whole-word masking."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.masking.words import pick_tokens, pick_words


def rows(seed: int = 0, batch: int = 40, tokens: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    starts = rng.random((batch, tokens)) < 0.6
    maskable = np.arange(tokens) < rng.integers(5, tokens, size=batch)[:, None]
    maskable[:, 0] = False
    return maskable, starts


def words_of(maskable: np.ndarray, starts: np.ndarray) -> list[list[int]]:
    """The brute-force twin: spell out the words of one row as lists of places."""
    words: list[list[int]] = []
    for place in np.flatnonzero(maskable):
        if words and not starts[place] and words[-1][-1] == place - 1:
            words[-1].append(int(place))
        else:
            words.append([int(place)])
    return words


def test_words_are_picked_whole_and_nothing_else() -> None:
    maskable, starts = rows()
    picked = pick_words(maskable, starts, 0.15, np.random.default_rng(1))
    assert not (picked & ~maskable).any()
    for row in range(len(maskable)):
        for word in words_of(maskable[row], starts[row]):
            assert len(set(picked[row, word].tolist())) == 1


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.4, 0.75])
def test_the_rate_is_met_on_average_though_words_are_long(rate: float) -> None:
    maskable = np.ones((400, 100), dtype=bool)
    starts = np.random.default_rng(0).random((400, 100)) < 0.4
    picked = [pick_words(maskable, starts, rate, np.random.default_rng(n)).mean()
              for n in range(20)]
    assert np.mean(picked) == pytest.approx(rate, abs=0.002)


def test_every_word_is_as_likely_as_any_other() -> None:
    maskable = np.ones((1, 12), dtype=bool)
    starts = np.array([[1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1]], dtype=bool)
    rng = np.random.default_rng(0)
    share = np.mean([pick_words(maskable, starts, 0.5, rng)[0] for _ in range(20_000)], axis=0)
    assert share.mean() == pytest.approx(0.5, abs=0.01)
    # The word that crosses the budget is the longer one more often, but may be left out:
    # no word strays far from the rate.
    assert np.abs(share - 0.5).max() < 0.12


def test_each_row_with_words_gets_one_at_least() -> None:
    maskable, starts = rows()
    maskable[3] = False
    picked = pick_words(maskable, starts, 0.001, np.random.default_rng(0))
    assert picked.any(axis=1).tolist() == maskable.any(axis=1).tolist()


def test_everything_or_nothing() -> None:
    maskable, starts = rows()
    assert not pick_words(maskable, starts, 0.0, np.random.default_rng(0)).any()
    assert (pick_words(maskable, starts, 1.0, np.random.default_rng(0)) == maskable).all()
    none = np.zeros_like(maskable)
    assert not pick_words(none, starts, 0.5, np.random.default_rng(0)).any()


def test_same_seed_same_words() -> None:
    maskable, starts = rows()
    first, again = (pick_words(maskable, starts, 0.15, np.random.default_rng(7))
                    for _ in range(2))
    assert (first == again).all()


def test_single_tokens() -> None:
    maskable = np.ones((200, 100), dtype=bool)
    picked = pick_tokens(maskable, 0.15, np.random.default_rng(0))
    assert picked.mean() == pytest.approx(0.15, abs=0.001)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(ValueError, match="expected 0 to 1"):
        pick_words(*rows(), rate, np.random.default_rng(0))
