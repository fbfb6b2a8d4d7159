"""The hidden Markov model of word positions, beside a brute-force twin."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from bmtools.translation.projection.hmm import (
    FARTHEST,
    NULL,
    Emissions,
    hmm_posteriors,
    initial_jumps,
)


def brute_force(words: np.ndarray, null: np.ndarray, jumps: np.ndarray,
                ) -> tuple[np.ndarray, np.ndarray]:
    """Sum over all paths; a state is a word, or the word remembered while none emits."""
    states, positions = words.shape
    moves = np.array([[jumps[b - a + FARTHEST] for b in range(states)] for a in range(states)])
    moves /= moves.sum(axis=1, keepdims=True)
    posteriors, expected, total = np.zeros_like(words), np.zeros(len(jumps)), 0.0
    for path in product(range(2 * states), repeat=positions):
        probability = 1.0
        taken = []
        for position, state in enumerate(path):
            here, is_null = state % states, state >= states
            if position == 0:
                probability /= states
            elif is_null:
                probability *= path[position - 1] % states == here
            else:
                probability *= moves[path[position - 1] % states, here]
                taken.append(here - path[position - 1] % states + FARTHEST)
            probability *= NULL * null[position] if is_null else \
                (1 - NULL) * words[here, position]
        total += probability
        for position, state in enumerate(path):
            if state < states:
                posteriors[state, position] += probability
        for jump in taken:
            expected[jump] += probability
    return posteriors / total, expected / total


def test_posteriors_and_jumps_are_those_of_all_paths() -> None:
    rng = np.random.default_rng(3)
    sizes = [(3, 4), (2, 3), (1, 2)]
    words, null = np.zeros((3, 3, 4), np.float32), np.ones((3, 4), np.float32)
    jumps = initial_jumps() * rng.uniform(0.5, 2, 2 * FARTHEST + 1)
    wanted, expected = [], np.zeros(len(jumps))
    for number, (states, positions) in enumerate(sizes):
        words[number, :states, :positions] = rng.random((states, positions))
        words[number, :states, positions:] = 1
        null[number, :positions] = rng.random(positions)
        found, moved = brute_force(words[number, :states, :positions].astype(float),
                                   null[number, :positions].astype(float), jumps)
        wanted.append(found)
        expected += moved
    posteriors, counts = hmm_posteriors(
        Emissions(words, null, *np.array(sizes).T), jumps)
    for number, (states, positions) in enumerate(sizes):
        assert posteriors[number, :states, :positions] == pytest.approx(wanted[number], abs=1e-5)
        assert not posteriors[number, states:].any() and not posteriors[number, :, positions:].any()
    assert counts == pytest.approx(expected, abs=1e-5)


def test_a_jump_to_the_next_word_is_likeliest() -> None:
    jumps = initial_jumps()
    assert jumps.argmax() == FARTHEST + 1
    assert all(one >= other for one, other in pairwise(jumps[FARTHEST + 1:]))
