"""Projection by word alignment, which is learned only from the sentence pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log

import numpy as np

from bmtools.status import set_status
from bmtools.translation.projection.links import (
    best_run,
    plain_words,
    spelling,
    word_spans,
    words_within,
)
from bmtools.translation.projection.pairs import Places, Projection, SentencePair

Array = np.ndarray
Group = tuple[Array, Array, Array]
"""Sentence pairs of about the same size.

(pairs, states, positions) indices of cells; padded states and padded positions have the two indices
after the last cell. (pairs,) words of the given side. (pairs,) words of the emitted side.
"""
FARTHEST = 30
"""Longest jump in words; longer jumps are as likely as this one."""
NULL = 0.1
"""Share of words that no word of the other side emits."""
_TINY = np.float32(1e-30)
DIAGONAL_ROUNDS = 4
HMM_ROUNDS = 3
_TENSION = 3.0
_UNSEEN = 0.003  # prior count of a word pair
_LIKENESS = 5.0  # further prior count of a pair with similar spelling
_LETTERS = 12  # letters that are compared
_STEP = 4  # difference in words that sentences in the same computation may have
_MOST_CELLS = 1_000_000
_LEAST_GAIN = 1e-6
_LEAST_LINK = 1e-3  # words with weaker links count little
MOST_WORD_PAIRS = 1_000_000  # a thousand words on both sides are not a sentence pair


def project_by_alignment(pairs: Sequence[SentencePair]) -> Places:
    """Find each span of each pair by word alignment, learned from all of these pairs.

    A span is projected to the run of target words with the greatest sum. Links into the span are
    added and links to other words are subtracted, weighted by the information of the target word.
    Therefore a linked preposition from elsewhere does not split a term. A span is None if no word
    links into it, and in pairs that are too long to be sentences.
    """
    words = {(pair.source, pair.target): (plain_words(pair.source), plain_words(pair.target))
             for pair in pairs}
    short = {key: both for key, both in words.items()
             if len(both[0]) * len(both[1]) <= MOST_WORD_PAIRS}
    links = dict(zip(short, align_words(list(short.values())), strict=True))
    counts = Counter(word for _, target in words.values() for word in target)
    total = counts.total()
    found: Places = []
    for pair in pairs:
        key = pair.source, pair.target
        if not pair.spans or key not in links:
            found.append([None] * len(pair.spans))
            continue
        forward, backward = links[key]
        sources, targets = word_spans(pair.source), word_spans(pair.target)
        weights = np.array([log(1 + total / counts[word]) for word in words[key][1]])
        # A single direction may link a rare word to all words without another explanation.
        found.append([best_span(np.sqrt(forward * backward), words_within(sources, span),
                                weights, targets) for span in pair.spans])
    return found


def best_span(links: Array, inside: Array, weights: Array,
              targets: Sequence[tuple[int, int]]) -> Projection | None:
    """Find the run of target words with the greatest sum; None if no sum is positive.

    The score is the share of the run's links that lead into the span, times the share of the span's
    links that lead to the run, both weighted.

    Args:
        links: (source words, target words) probability of a link.
        inside: (source words,) whether the span contains them.
        weights: (target words,) weight of each word.
        targets: start and end of each target word.
    """
    into, elsewhere = links[inside].sum(axis=0), links[~inside].sum(axis=0)
    shares = [0, *(into / (into + elsewhere + _LEAST_LINK)), 0]
    into, elsewhere = into * weights, elsewhere * weights
    first, stop = best_run(into - elsewhere, _LEAST_GAIN)
    if first == stop:
        return None
    edge = min(shares[first + 1] - shares[first], shares[stop] - shares[stop + 1])
    linked = into[first:stop].sum()
    purity = linked / (linked + elsewhere[first:stop].sum())
    return Projection(targets[first][0], targets[stop - 1][1], float(purity * linked / into.sum()),
                      edge=float(edge))


class Cells:
    """All word pairs of each sentence pair, in flat arrays; a cell is one word pair.

    Args:
        pairs: for each sentence pair, the ids of the words on both sides.

    Attributes:
        source: id of the source word of each cell.
        target: id of the target word of each cell.
        offsets: first cell of each sentence pair, and the number of cells.
        shapes: (pairs, 2) number of words on each side.
    """

    def __init__(self, pairs: Sequence[Sequence[Array]]) -> None:
        self.shapes = np.array([(len(left), len(right)) for left, right in pairs],
                               np.int64).reshape(-1, 2)
        self.offsets = np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1))])
        nothing = np.empty(0, np.int64)
        self.source = np.concatenate(
            [nothing, *(np.repeat(left, len(right)) for left, right in pairs)])
        self.target = np.concatenate(
            [nothing, *(np.tile(right, len(left)) for left, right in pairs)])

    def groups(self, axis: int) -> Iterator[Group]:
        """Group sentence pairs of about the same size.

        Args:
            axis: 0 if the source is given and the target emitted, 1 for the reverse.
        """
        sizes = -(-self.shapes // _STEP) * _STEP
        order = np.lexsort((sizes[:, 1 - axis], sizes[:, axis]))
        order = order[self.shapes[order].all(axis=1)]
        while order.size:
            width = sizes[order[0], axis]
            stop = 1
            while stop < len(order) and sizes[order[stop], axis] == width and \
                    (stop + 1) * width * self.shapes[order[stop], 1 - axis] < _MOST_CELLS:
                stop += 1
            members, order = order[:stop], order[stop:]
            states, positions = self.shapes[members, axis], self.shapes[members, 1 - axis]
            state = np.arange(states.max())[None, :, None]
            position = np.arange(positions.max())[None, None, :]
            width = self.shapes[members, 1][:, None, None]
            cells = self.offsets[members][:, None, None] + (
                state * width + position if axis == 0 else position * width + state)
            last = self.offsets[-1]
            cells = np.where(position < positions[:, None, None], cells, last + 1)
            yield np.where(state < states[:, None, None], cells, last), states, positions


class Direction:
    """Model of the words on one side, given the words on the other side.

    Args:
        cells: word pairs of the sentence pairs.
        axis: 0 if the source is given, 1 if the target is given.
        entries: entry of the lexicon for each cell.
        given: the given word of each entry in the lexicon.
        prior: prior count of each entry.
    """

    def __init__(self, cells: Cells, axis: int, entries: Array, given: Array, prior: Array) -> None:
        self.groups = list(cells.groups(axis))
        self.entries = np.append(entries, (len(given), len(given) + 1))
        self.given, self.prior = given, prior
        self.jumps = initial_jumps()
        words = cells.target if axis == 0 else cells.source
        frequency = np.bincount(words) / max(1, len(words))
        self.null = np.append(frequency[words], (1, 1)).astype(np.float32)
        self.learn(np.zeros(len(entries)), None)

    def learn(self, posteriors: Array, jumps: Array | None) -> None:
        """Estimate lexicon and jumps from posteriors."""
        counts = self.prior + np.bincount(self.entries[:-2], weights=posteriors,
                                          minlength=len(self.given))
        totals = np.bincount(self.given, weights=counts)
        self.lexicon = np.append(counts / totals[self.given], (0, 1)).astype(np.float32)
        if jumps is not None:
            self.jumps = jumps + initial_jumps()

    def posteriors(self, hmm: bool) -> tuple[Array, Array | None]:
        """Return the probability that each cell is a link, and the expected jumps."""
        found = np.zeros(len(self.entries), np.float32)
        jumps = np.zeros(len(self.jumps))
        for at, states, positions in self.groups:
            emissions = self.lexicon[self.entries[at]], self.null[at[:, 0]], states, positions
            if hmm:
                found[at], expected = hmm_posteriors(*emissions, self.jumps)
                jumps += expected
            else:
                found[at] = diagonal_posteriors(*emissions)
        return found[:-2], jumps if hmm else None


def diagonal_posteriors(words: Array, null: Array, states: Array, positions: Array) -> Array:
    """Return the probability of each link, with a prior for words near the diagonal.

    Source: IBM model 1 with the prior of Dyer et al. 2013, section 2.

    Args:
        words: (pairs, states, positions) probability of each word, given each word of the other
            side; 0 for padded states, and 1 for padded positions.
        null: (pairs, positions) probability of each word, given the null word.
        states: (pairs,) words of the other side.
        positions: (pairs,) words of this side.

    Returns:
        (pairs, states, positions) probability that the word of the other side emits the word.
    """
    rows = (np.arange(words.shape[1]) + 0.5)[None, :] / states[:, None]
    columns = (np.arange(words.shape[2]) + 0.5) / positions[:, None]
    prior = np.exp(-_TENSION * np.abs(rows[:, :, None] - columns[:, None, :]))
    prior *= rows[:, :, None] < 1
    joint = words * prior * ((1 - NULL) / prior.sum(axis=1, keepdims=True))
    return np.asarray(joint / (joint.sum(axis=1, keepdims=True) + NULL * null[:, None, :]))


def align_words(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Array]:
    """Align the words of sentence pairs.

    Both directions are trained together on their agreement: each learns from the product of both
    posteriors. Words with similar spelling have a higher prior.

    Source: Dyer et al. 2013; Liang et al. 2006, Alignment by agreement.

    Returns:
        for each pair (2, source words, target words): the probability that the source word emits
        the target word, and the reverse.
    """
    vocabulary: tuple[dict[str, int], dict[str, int]] = ({}, {})
    cells = Cells([[np.array([known.setdefault(word, len(known)) for word in words], np.int64)
                    for words, known in zip(pair, vocabulary, strict=True)] for pair in pairs])
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


def spelling_likeness(left_words: Sequence[str], right_words: Sequence[str], left: Array,
                      right: Array) -> Array:
    """Compare the spelling of word pairs.

    Args:
        left_words: the words of one language.
        right_words: the words of the other language.
        left: index of the first word of each pair.
        right: index of the second word of each pair.

    Returns:
        (pairs,) squared length of the common beginning, as a share of the longer word; 0 for a
        share below one half.
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


def initial_jumps() -> Array:
    """Return prior counts of jumps by -FARTHEST to FARTHEST words.

    The jump to the next word is most likely. The size of the counts keeps a corpus of a few hundred
    sentences from learning only jumps to the next word.
    """
    distance = np.abs(np.arange(-FARTHEST, FARTHEST + 1) - 1)
    return (600 * (np.exp(-0.25 * distance) + 0.005)).astype(np.float32)


def hmm_posteriors(words: Array, null: Array, states: Array, positions: Array,
                   jumps: Array) -> tuple[Array, Array]:
    """Return the probability of each link in a hidden Markov model, and the expected jumps.

    Source: Vogel et al. 1996; the null word remembers the last position, Och and Ney 2003.

    Args:
        words: see `diagonal_posteriors`.
        null: see `diagonal_posteriors`.
        states: see `diagonal_posteriors`.
        positions: see `diagonal_posteriors`.
        jumps: weights of the jumps from one word to the next, see `initial_jumps`.

    Returns:
        (pairs, states, positions) posteriors, and the expected number of each jump.
    """
    size = words.shape[1]
    steps = np.clip(np.arange(size)[None, :] - np.arange(size)[:, None],
                    -FARTHEST, FARTHEST) + FARTHEST
    moves = jumps[steps].astype(np.float32)
    real = np.arange(size)[None, :] < states[:, None]
    leaving = real / (real.astype(np.float32) @ moves.T + _TINY)
    words = np.ascontiguousarray(words.transpose(2, 0, 1)) * np.float32(1 - NULL)
    null = null.T[:, :, None] * np.float32(NULL)
    forward, scales = _forward(words, null, moves, leaving, states)
    live = np.arange(len(words))[:, None] < positions[None, :]
    posteriors, expected = _backward(words, null, moves, leaving, forward, scales, live)
    counts = np.bincount(steps.ravel(), weights=(expected * moves).ravel(), minlength=len(jumps))
    return (posteriors * live[:, :, None]).transpose(1, 2, 0), counts


def _forward(words: Array, null: Array, moves: Array, leaving: Array,
             states: Array) -> tuple[Array, Array]:
    """Return (2, positions, pairs, states) scaled forward probabilities, and their scales.

    The first half is for states that emit the word, the second for states that are remembered while
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
