"""The sequences of a run, batch by batch, which depend only on seed and settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bmtools.data.packing import pack
from bmtools.data.samples import (
    NO_PAIR,
    PAIR,
    SAMPLE,
    SINGLE_SPECIALS,
    WORD_SLACK,
    at_word_starts,
    cut_evenly,
    make_pairs,
    token_counts,
    whole_documents,
)
from bmtools.keyed_random import derive
from bmtools.ragged import offsets, ranges
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from bmtools.data.shards import Corpus
    from bmtools.recipes.phases import PhaseStep, Schedule

STREAM = 3
"""Version of the sampling order; a run cannot be resumed with another version."""
_ROUNDS = 6
_WINDOW_TOKENS, _MOST_AT_ONCE = 1 << 21, 1 << 15
"""Approximate tokens and maximum documents of a window, for planning in about 0.1 s."""


@dataclass(frozen=True)
class Sequences:
    """Samples of consecutive sequences.

    Args:
        samples: (samples,) of SAMPLE.
        borders: (sequences + 1,) start of each sequence, and end of the last one.
    """

    samples: np.ndarray
    borders: np.ndarray

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, chosen: slice | np.ndarray) -> Sequences:
        """Select sequences by a slice, or by their numbers in the given order."""
        sizes = np.diff(self.borders)[chosen]
        return Sequences(self.samples[ranges(self.borders[:-1][chosen], sizes)], offsets(sizes))


@dataclass(frozen=True)
class Window:
    """State of the sampler before it makes sequences from a window of documents.

    Args:
        batch: number of the batch that needs the window.
        phase: number of the last phase; the window begins a phase if its batch is of another.
        windows: number of windows before.
        draws: number of documents sampled so far, by corpus.
        owed: fractions of a document that the mixture carries over, by corpus.
        pool: samples that are left over from earlier windows.
    """

    batch: int = 0
    phase: int = -1
    windows: int = 0
    draws: Mapping[str, int] = field(default_factory=dict)
    owed: Mapping[str, float] = field(default_factory=dict)
    pool: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=SAMPLE))


@dataclass(frozen=True)
class StreamPosition:
    """Position of a batch in the stream of samples, from which a run can resume.

    Args:
        batch: number of the next batch.
        window: the window that its first sequence comes from.
        used: number of sequences of that window in earlier batches.
    """

    batch: int = 0
    window: Window = field(default_factory=Window)
    used: int = 0

    def to_json(self) -> JsonObject:
        """Return plain values, for a run's state."""
        window = {**vars(self.window), "pool": self.window.pool.tolist()}
        return {"batch": self.batch, "window": window, "used": self.used}

    @classmethod
    def from_json(cls, content: JsonObject) -> StreamPosition:
        """Make a position from plain values."""
        window = dict(content["window"])
        pool = np.array([tuple(sample) for sample in window.pop("pool")], dtype=SAMPLE)
        return cls(content["batch"], Window(**window, pool=pool), content["used"])


@dataclass(frozen=True)
class BatchPlan:
    """Contents of a batch.

    Args:
        sequences: sequences of the complete batch, over all processes.
        phase_step: the batch's step in the schedule.
        following: position of the next batch.
    """

    sequences: Sequences
    phase_step: PhaseStep
    following: StreamPosition


class Sampler:
    """Sampler of documents in keyed order, cut, paired or packed into sequences, in batches.

    The document of a draw, its cuts and its masks depend only on the seed and the number of the
    draw, not on processes, micro-batches or restarts. Documents are sampled, arranged and shuffled
    in windows. A run resumes inside a window, so it plans only the sequences of this window again.
    Samples that are left over at the end of a phase are used first in the next phase, if it uses
    the same corpus.

    Args:
        corpora: corpora by name.
        schedule: the phases and their steps.
        packed: whether documents share sequences.
        seed: seed of the order.
        position: position of a batch that is planned without earlier batches.
    """

    def __init__(self, corpora: Mapping[str, Corpus], schedule: Schedule, packed: bool,
                 seed: int, position: StreamPosition | None = None) -> None:
        self._corpora = list(corpora.values())
        self._numbers = {name: number for number, name in enumerate(corpora)}
        self._sizes = {name: (len(corpus), corpus.tokens) for name, corpus in corpora.items()}
        self._schedule = schedule
        self._packed = packed
        self._seed = seed
        self._position = position or StreamPosition()
        self._next = -1

    def batch(self, number: int) -> BatchPlan:
        """Plan batch `number`, from 0, and all earlier batches that are not planned yet."""
        if not 0 <= self._next <= number:
            position = self._position if number >= self._position.batch else StreamPosition()
            self._next = position.batch
            self._make(position.window)
            self._used = position.used
        while self._next <= number:
            phase_step = self._schedule.phase_step(self._next)
            if phase_step.phase_number != self._after.phase:
                left = [self._after.pool, self._ready[self._used:].samples]
                self._make(replace(self._after, batch=self._next, pool=np.concatenate(left)))
            parts, missing = [], phase_step.phase.batch.batch_size
            while missing:
                if self._used == len(self._ready):
                    self._make(replace(self._after, batch=self._next))
                parts.append(self._ready[self._used:self._used + missing])
                self._used += len(parts[-1])
                missing -= len(parts[-1])
            self._next += 1
        sizes = np.concatenate([np.diff(part.borders) for part in parts])
        sequences = Sequences(np.concatenate([part.samples for part in parts]), offsets(sizes))
        return BatchPlan(sequences, phase_step,
                         StreamPosition(self._next, self._window, self._used))

    def _make(self, window: Window) -> None:
        """Make sequences from a window of documents, or from leftover samples of a phase."""
        phase_step = self._schedule.phase_step(window.batch)
        if phase_step.phase_number != window.phase:
            # Leftover samples of the last phase are cut and paired with the settings of this phase.
            used = [self._numbers[name] for name in phase_step.phase.mixture or self._numbers]
            left = window.pool[np.isin(window.pool["corpus"], used)]
            left[PAIR] = NO_PAIR
            draws, owed = window.draws, {}
            waiting, new = self._cut(left, phase_step), left[:0]
        else:
            mixture = Mixture(self._sizes, phase_step.phase.mixture, window.owed)
            waiting, (new, draws) = window.pool, self._draw(mixture, window.draws, phase_step)
            owed = mixture.owed
        rng = np.random.default_rng((self._seed, 3 if self._packed else 2, window.windows + 1))
        arrange = self._pack if self._packed else self._sort
        self._ready, pool = arrange(waiting, new, phase_step, rng)
        self._window, self._used = window, 0
        self._after = Window(window.batch, phase_step.phase_number, window.windows + 1, draws,
                             owed, pool)

    def _draw(self, mixture: Mixture, draws: Mapping[str, int],
              phase_step: PhaseStep) -> tuple[np.ndarray, dict[str, int]]:
        """Sample a window of documents and cut it into samples; also return each corpus's draws."""
        after, drawn = dict(draws), []
        for name, count in mixture.take().items():
            number, first = self._numbers[name], draws.get(name, 0)
            corpus = self._corpora[number]
            own = np.arange(first, first + count)
            documents = document_numbers(own, len(corpus), self._seed, number)
            drawn.append(whole_documents(documents, corpus.lengths[documents], own, number))
            after[name] = first + count
        return self._cut(np.concatenate(drawn), phase_step), after

    def _cut(self, samples: np.ndarray, phase_step: PhaseStep) -> np.ndarray:
        """Cut or pair samples so that each fits into a sequence."""
        max_length = phase_step.phase.batch.max_length
        if term := phase_step.phase.objective.pair_term:
            return make_pairs(samples, self._corpora, max_length, self._seed, term == "sop")
        if self._packed:
            return samples  # cut where sequences are filled
        return cut_evenly(samples, self._corpora, max_length)

    def _sort(self, waiting: np.ndarray, drawn: np.ndarray, phase_step: PhaseStep,
              rng: np.random.Generator) -> tuple[Sequences, np.ndarray]:
        """Sort samples by length into complete batches, and shuffle the batches.

        Args:
            waiting: samples left over from earlier windows; they are used first.
            drawn: new samples.
            phase_step: step of the batch.
            rng: source of the order.

        Returns:
            sequences with one sample each, and the samples that do not fill a batch.
        """
        samples, size = np.concatenate([waiting, drawn]), phase_step.phase.batch.batch_size
        members = np.concatenate([np.arange(len(waiting)),
                                  len(waiting) + rng.permutation(len(drawn))])
        used = members[:len(members) // size * size]
        ranked = used[np.argsort(token_counts(samples)[used], kind="stable")].reshape(-1, size)
        chosen = ranked[rng.permutation(len(ranked))].ravel()
        return (Sequences(samples[chosen], np.arange(len(chosen) + 1)),
                samples[np.sort(members[len(used):])])

    def _pack(self, waiting: np.ndarray, drawn: np.ndarray, phase_step: PhaseStep,
              rng: np.random.Generator) -> tuple[Sequences, np.ndarray]:
        """Pack samples into sequences, and shuffle them; arguments and results: see `_sort`."""
        samples, max_length = np.concatenate([waiting, drawn]), phase_step.phase.batch.max_length
        if phase_step.phase.objective.pair_term:
            parts = pack(token_counts(samples), max_length, 0, None)
            packed = samples[parts["sample"]]
        else:
            def cut(chosen: np.ndarray, wanted: np.ndarray) -> np.ndarray:
                starts = samples["start"][chosen]
                return at_word_starts(samples[chosen], wanted + starts, self._corpora,
                                      WORD_SLACK) - starts

            parts = pack(samples["length"], max_length, SINGLE_SPECIALS, cut)
            packed = samples[parts["sample"]]
            packed["start"] += parts["start"]
            packed["length"] = parts["length"]
        sizes = np.bincount(parts["sequence"] + 1, minlength=1)
        sequences = Sequences(packed[sizes[0]:], offsets(sizes[1:]))
        return sequences[rng.permutation(len(sequences))], packed[:sizes[0]]


def permute(numbers: np.ndarray, size: int, key: int) -> np.ndarray:
    """Permute the numbers below `size`.

    This is a Feistel network over the next power of four, iterated until the result is inside the
    range. Each element of a shuffled corpus is found directly, without the permutation in memory.

    Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", sections 3 and 5.

    Args:
        numbers: (n,) int64, 0 to size - 1.
        size: count of the numbers.
        key: key of the permutation.
    """
    half = max(1, math.ceil(math.log2(max(size, 2)) / 2))
    found = _feistel(numbers.astype(np.uint64), half, key)
    outside = np.nonzero(found >= size)[0]
    while len(outside):
        found[outside] = _feistel(found[outside], half, key)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _feistel(numbers: np.ndarray, half: int, key: int) -> np.ndarray:
    bits = np.uint64(half)
    low = np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & low
    for turn in range(_ROUNDS):
        left, right = right, left ^ (derive(key, turn, right) & low)
    return (left << bits) | right


def document_numbers(draws: np.ndarray, documents: int, seed: int, corpus: int) -> np.ndarray:
    """Return the document of each draw; an epoch uses all documents once, in its own order."""
    found = np.empty(len(draws), dtype=np.int64)
    epochs, positions = np.divmod(draws, documents)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        found[inside] = permute(positions[inside], documents, int(derive(seed, 1, corpus, epoch)))
    return found


class Mixture:
    """Calculator of the number of documents to sample from each corpus.

    Weights count tokens, so more documents are sampled from a corpus of short documents. Fractions
    of a document are carried over, so that each corpus is always within one document of its share.

    Args:
        sizes: documents and tokens of each corpus, by name; corpora without a weight are not used.
        weights: weights by name; if empty, all corpora are weighted by their tokens.
        owed: fractions of a document carried over, by name.
    """

    def __init__(self, sizes: Mapping[str, tuple[int, int]], weights: Mapping[str, float],
                 owed: Mapping[str, float] | None = None) -> None:
        weights = weights or {name: tokens for name, (_, tokens) in sizes.items()}
        rates = {name: weight * sizes[name][0] / max(sizes[name][1], 1)
                 for name, weight in weights.items()}
        total = sum(rates.values())
        # A window has about _WINDOW_TOKENS tokens. An epoch is divided into windows of equal size.
        most = min(max(int(_WINDOW_TOKENS / max(sum(weights.values()) / total, 1)), 1),
                   _MOST_AT_ONCE)
        documents = sum(sizes[name][0] for name in weights)
        self.window = -(-documents // -(-documents // most))
        self._shares = {name: self.window * rate / total for name, rate in rates.items() if rate}
        self.owed = {name: (owed or {}).get(name, 0.0) for name in weights}

    def take(self) -> dict[str, int]:
        """Return the number of documents of each corpus in the next window."""
        taken = {}
        for name, share in self._shares.items():
            self.owed[name] += share
            taken[name] = int(self.owed[name] + 1e-9)
            self.owed[name] -= taken[name]
        return taken if any(taken.values()) else self.take()
