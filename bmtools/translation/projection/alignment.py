"""Word alignment of sentence pairs, learned from these pairs alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.status import set_status
from bmtools.translation.projection.hmm import (
    NULL,
    Array,
    Emissions,
    hmm_posteriors,
    initial_jumps,
)
from bmtools.translation.projection.words import spelling

DIAGONAL_ROUNDS = 4
HMM_ROUNDS = 3
_TENSION = 3.0
_UNSEEN = 0.003  # counts of a pair of words before it is seen
_LIKENESS = 5.0  # further ones of a pair that is spelled alike
_LETTERS = 12  # at which spellings are compared
_STEP = 4  # words by which the sizes of sentences that are computed together may differ
_MOST_CELLS = 1_000_000


class Cells:
    """Pairs of words of the same sentence pair, as one flat array.

    Args:
        pairs: ids of the words of both sides of each sentence pair.

    Attributes:
        source: id of the source word of each cell.
        target: id of the target word of each cell.
        offsets: first cell of each sentence pair, and the number of all.
        shapes: (pairs, 2) words of each side.
    """

    def __init__(self, pairs: Sequence[tuple[Array, Array]]) -> None:
        self.shapes = np.array([(len(left), len(right)) for left, right in pairs],
                               np.int64).reshape(-1, 2)
        self.offsets = np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1))])
        nothing = np.empty(0, np.int64)
        self.source = np.concatenate(
            [nothing, *(np.repeat(left, len(right)) for left, right in pairs)])
        self.target = np.concatenate(
            [nothing, *(np.tile(right, len(left)) for left, right in pairs)])

    def groups(self, axis: int) -> Iterator[Group]:
        """Yield sentence pairs of about the same size together.

        Args:
            axis: 0 where the source is given and the target emitted, 1 the other way round.
        """
        classes = -(-self.shapes // _STEP)
        order = np.lexsort((classes[:, 1 - axis], classes[:, axis]))
        order = order[self.shapes[order].all(axis=1)]
        start = 0
        while start < len(order):
            width = classes[order[start], axis] * _STEP
            stop = start + 1
            while stop < len(order) and classes[order[stop], axis] * _STEP == width and \
                    (stop + 1 - start) * width * self.shapes[order[stop], 1 - axis] < _MOST_CELLS:
                stop += 1
            yield self._group(order[start:stop], axis)
            start = stop

    def _group(self, members: Array, axis: int) -> Group:
        states, positions = self.shapes[members, axis], self.shapes[members, 1 - axis]
        state = np.arange(states.max())[None, :, None]
        position = np.arange(positions.max())[None, None, :]
        width = self.shapes[members, 1][:, None, None]
        cells = self.offsets[members][:, None, None] + (
            state * width + position if axis == 0 else position * width + state)
        last = self.offsets[-1]
        cells = np.where(position < positions[:, None, None], cells, last + 1)
        return Group(np.where(state < states[:, None, None], cells, last), states, positions)


@dataclass(frozen=True)
class Group:
    """Sentence pairs of about the same size.

    Args:
        cells: (pairs, states, positions) indices of cells; behind them one for padded states, and
            one for padded positions.
        states: (pairs,) words of the side that is given.
        positions: (pairs,) words of the side that is emitted.
    """

    cells: Array
    states: Array
    positions: Array


class Direction:
    """Model of the words of one side, given those of the other.

    Args:
        cells: of the sentence pairs.
        axis: 0 where the source is given.
        entries: of each cell, the pair of words that it is in the lexicon.
        given: the given word of each entry of the lexicon.
        emitted: the other word of each entry.
        prior: counts that each entry has before any is seen.
    """

    def __init__(self, cells: Cells, axis: int, entries: Array, given: Array,
                 prior: Array) -> None:
        self.groups = list(cells.groups(axis))
        self.entries = np.append(entries, (len(given), len(given) + 1))
        self.given, self.prior = given, prior
        self.jumps = initial_jumps()
        words = cells.target if axis == 0 else cells.source
        frequency = np.bincount(words) / max(1, len(words))
        self.null = np.append(frequency[words], (1, 1)).astype(np.float32)
        self.learn(np.zeros(len(entries)), None)

    def learn(self, posteriors: Array, jumps: Array | None) -> None:
        """Set lexicon and jumps to what the posteriors say."""
        counts = self.prior + np.bincount(self.entries[:-2], weights=posteriors,
                                          minlength=len(self.given))
        totals = np.bincount(self.given, weights=counts)
        self.lexicon = np.append(counts / totals[self.given], (0, 1)).astype(np.float32)
        if jumps is not None:
            self.jumps = jumps + initial_jumps()

    def posteriors(self, hmm: bool) -> tuple[Array, Array | None]:
        """Return how likely each cell is a link, and the expected jumps."""
        found = np.zeros(len(self.entries), np.float32)
        jumps = np.zeros(len(self.jumps))
        for group in self.groups:
            emissions = Emissions(self.lexicon[self.entries[group.cells]],
                                  self.null[group.cells[:, 0]], group.states, group.positions)
            if hmm:
                found[group.cells], expected = hmm_posteriors(emissions, self.jumps)
                jumps += expected
            else:
                found[group.cells] = diagonal_posteriors(emissions)
        return found[:-2], jumps if hmm else None


def diagonal_posteriors(emissions: Emissions) -> Array:
    """Find how likely each word comes from each word of the other side, near the diagonal.

    Source: IBM model 1 with the prior of Dyer et al. 2013, section 2.

    Returns:
        (pairs, states, positions).
    """
    states = (np.arange(emissions.words.shape[1]) + 0.5)[None, :] / emissions.states[:, None]
    positions = (np.arange(emissions.words.shape[2]) + 0.5) / emissions.positions[:, None]
    prior = np.exp(-_TENSION * np.abs(states[:, :, None] - positions[:, None, :]))
    prior *= states[:, :, None] < 1
    joint = emissions.words * prior * ((1 - NULL) / prior.sum(axis=1, keepdims=True))
    total = joint.sum(axis=1, keepdims=True) + NULL * emissions.null[:, None, :]
    return np.asarray(joint / total)


def align_words(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Array]:
    """Align the words of sentence pairs.

    Both directions are trained together on what they agree in: each learns from the product of
    both posteriors. Words of like spelling are likely translations from the start.

    Source: Dyer et al. 2013; Liang et al. 2006, Alignment by agreement.

    Returns:
        (2, source words, target words) of each pair: how likely the target word comes from the
        source word, and the other way round.
    """
    vocabulary: tuple[dict[str, int], dict[str, int]] = ({}, {})
    cells = Cells([(_ids(left, vocabulary[0]), _ids(right, vocabulary[1]))
                   for left, right in pairs])
    size = max(1, len(vocabulary[1]))
    keys, entries = np.unique(cells.source * size + cells.target, return_inverse=True)
    left, right = keys // size, keys % size
    spellings = [list(map(spelling, words)) for words in vocabulary]
    prior = _UNSEEN + _LIKENESS * spelling_likeness(spellings[0], spellings[1], left, right)
    directions = (Direction(cells, 0, entries, left, prior),
                  Direction(cells, 1, entries, right, prior))
    rounds = DIAGONAL_ROUNDS + HMM_ROUNDS
    for number in range(rounds + 1):
        set_status("aligning words", number, rounds, "rounds")
        found = [direction.posteriors(number >= DIAGONAL_ROUNDS) for direction in directions]
        if number < rounds:
            agreed = found[0][0] * found[1][0]
            for direction, (_, jumps) in zip(directions, found, strict=True):
                direction.learn(agreed, jumps)
    both = np.stack([posteriors for posteriors, _ in found])
    return [both[:, start:end].reshape(2, *shape) for start, end, shape in zip(
        cells.offsets[:-1], cells.offsets[1:], cells.shapes, strict=True)]


def _ids(words: Sequence[str], known: dict[str, int]) -> Array:
    return np.array([known.setdefault(word, len(known)) for word in words], np.int64)


def spelling_likeness(left_words: Sequence[str], right_words: Sequence[str], left: Array,
                      right: Array) -> Array:
    """Compare the spelling of pairs of words.

    Args:
        left_words: the words of one language.
        right_words: the words of the other.
        left: of each pair, the first word.
        right: of each pair, the second word.

    Returns:
        (pairs,) square of the share of the longer word that they begin with alike; 0 for less
        than half.
    """
    letters, lengths = zip(*((
        np.array([[ord(letter) for letter in word[:_LETTERS].ljust(_LETTERS, "\0")]
                  for word in words], np.int32).reshape(-1, _LETTERS),
        np.array([min(_LETTERS, len(word)) for word in words], np.int32))
        for words in (left_words, right_words)), strict=True)
    alike = np.zeros(len(left), np.int32)
    going = np.ones(len(left), bool)
    for at in range(_LETTERS):
        one = letters[0][left, at]
        going &= (one == letters[1][right, at]) & (one > 0)
        alike += going
    share = alike / np.maximum(lengths[0][left], lengths[1][right])
    return np.where(share >= 0.5, share ** 2, 0.0)
