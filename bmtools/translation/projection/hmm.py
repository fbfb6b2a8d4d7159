"""Hidden Markov model of word positions, for many sentence pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
FARTHEST = 30
"""Words; longer jumps are as likely as one of this length."""
NULL = 0.1
"""Share of words that come from no word of the other side."""
_TINY = np.float32(1e-30)


@dataclass(frozen=True)
class Emissions:
    """Probabilities of the words of one side, for sentence pairs of about the same size.

    Args:
        words: (pairs, states, positions) of each word, given each word of the other side; padding
            has 0 as a state, and 1 as a position.
        null: (pairs, positions) of each word, given none.
        states: (pairs,) words of the other side.
        positions: (pairs,) words of this side.
    """

    words: Array
    null: Array
    states: Array
    positions: Array


def initial_jumps() -> Array:
    """Return counts of jumps by -FARTHEST to FARTHEST words before any is seen.

    One to the next word is likeliest. Their weight keeps a corpus of a few hundred sentences from
    learning to go straight ahead.
    """
    distance = np.abs(np.arange(-FARTHEST, FARTHEST + 1) - 1)
    return (600 * (np.exp(-0.25 * distance) + 0.005)).astype(np.float32)


def hmm_posteriors(emissions: Emissions, jumps: Array) -> tuple[Array, Array]:
    """Find how likely each word comes from each word of the other side.

    Source: Vogel et al. 1996; the null word remembers the last position, Och and Ney 2003.

    Args:
        emissions: of a group of sentence pairs.
        jumps: weights of the jumps from one word to the next, see `initial_jumps`.

    Returns:
        (pairs, states, positions) posteriors, and the expected number of each jump.
    """
    size = emissions.words.shape[1]
    steps = np.clip(np.arange(size)[None, :] - np.arange(size)[:, None],
                    -FARTHEST, FARTHEST) + FARTHEST
    moves = jumps[steps].astype(np.float32)
    real = np.arange(size)[None, :] < emissions.states[:, None]
    leaving = real / (real.astype(np.float32) @ moves.T + _TINY)
    words = np.ascontiguousarray(emissions.words.transpose(2, 0, 1)) * np.float32(1 - NULL)
    null = emissions.null.T[:, :, None] * np.float32(NULL)
    forward, scales = _forward(words, null, moves, leaving, emissions.states)
    live = np.arange(len(words))[:, None] < emissions.positions[None, :]
    posteriors, expected = _backward(words, null, moves, leaving, forward, scales, live)
    counts = np.bincount(steps.ravel(), weights=(expected * moves).ravel(), minlength=len(jumps))
    return (posteriors * live[:, :, None]).transpose(1, 2, 0), counts


def _forward(words: Array, null: Array, moves: Array, leaving: Array,
             states: Array) -> tuple[Array, Array]:
    """Return (2, positions, pairs, states) scaled forward probabilities, and their scales.

    The first half is of states that emit the word, the second of those that are remembered while
    the null word emits it.
    """
    forward = np.empty((2, *words.shape), np.float32)
    scales = np.empty((*words.shape[:2], 1), np.float32)
    before = np.where(leaving > 0, 1 / states[:, None], 0).astype(np.float32)
    for position, emission in enumerate(words):
        arriving = (before * leaving) @ moves if position else before
        forward[0, position] = arriving * emission
        forward[1, position] = before * null[position]
        before = forward[0, position] + forward[1, position]
        scales[position] = before.sum(axis=1, keepdims=True) + _TINY
        forward[:, position] /= scales[position]
        before = before / scales[position]
    return forward, scales


def _backward(words: Array, null: Array, moves: Array, leaving: Array, forward: Array,
              scales: Array, live: Array) -> tuple[Array, Array]:
    """Return (positions, pairs, states) posteriors, and (states, states) expected moves."""
    posteriors = np.empty(words.shape, np.float32)
    expected = np.zeros(moves.shape, np.float32)
    after = np.ones(words.shape[1:], np.float32)
    for position in range(len(words) - 1, -1, -1):
        posteriors[position] = forward[0, position] * after
        if position:
            arriving = words[position] * after / scales[position]
            last = (forward[0, position - 1] + forward[1, position - 1]) * leaving
            expected += (last * live[position, :, None]).T @ arriving
            after = leaving * (arriving @ moves.T) + null[position] * after / scales[position]
    return posteriors, expected
