"""The sequences of a run, batch by batch: a function of seed and settings alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.data.packing import PackedPart, pack
from bmtools.data.samples import (
    NO_PAIR,
    PAIR,
    SAMPLE,
    SINGLE_SPECIALS,
    WORD_SLACK,
    cut_evenly,
    make_pairs,
    token_counts,
    whole_documents,
)
from bmtools.data.shards import Corpus
from bmtools.data.shuffle import Mixture, document_numbers
from bmtools.errors import DataError
from bmtools.recipes.schedule import PhaseStep, Schedule


@dataclass(frozen=True)
class BatchPlan:
    """Contents of a batch.

    Args:
        sequences: (samples,) of SAMPLE of each sequence.
        phase_step: the step of the schedule that it is for.
    """

    sequences: list[np.ndarray]
    phase_step: PhaseStep


class Sampler:
    """Documents in keyed order, cut, paired or packed into sequences, in batches by number.

    The document of a draw, its cuts and its masks depend on the seed and the number of the draw,
    not on processes, micro-batches or restarts. A resumed run repeats the order without reading
    the text, which takes a few seconds per ten million documents. Samples that are left over at
    the end of a phase come first in the next one, if that draws from the same corpus.

    Args:
        corpora: by name.
        schedule: the phases and their steps.
        packed: whether documents share sequences.
        seed: seed of the order.
    """

    def __init__(self, corpora: Mapping[str, Corpus], schedule: Schedule, packed: bool,
                 seed: int) -> None:
        self._corpora = list(corpora.values())
        self._numbers = {name: number for number, name in enumerate(corpora)}
        self._sizes = {name: (len(corpus), corpus.tokens) for name, corpus in corpora.items()}
        self._schedule = schedule
        self._packed = packed
        self._seed = seed
        self._ready: list[np.ndarray] = []
        self._restart()

    def batch(self, number: int) -> BatchPlan:
        """Plan batch `number`, from 0."""
        if number < self._next:
            self._restart()
        while True:
            phase_step = self._schedule.phase_step(self._next)
            if phase_step.phase_number != self._phase:
                self._enter(phase_step)
            size = phase_step.batch_size
            while len(self._ready) < size:
                self._arrange(self._pool, self._draw(phase_step), phase_step)
            sequences, self._ready = self._ready[:size], self._ready[size:]
            self._next += 1
            if self._next > number:
                return BatchPlan(sequences, phase_step)

    def _restart(self) -> None:
        self._next = 0
        self._phase = -1
        self._draws = dict.fromkeys(self._numbers, 0)
        self._pool = np.empty(0, dtype=SAMPLE)
        self._ready = []
        self._windows = 0

    def _enter(self, phase_step: PhaseStep) -> None:
        """Enter a phase; leftovers of the last one are cut and paired by its settings."""
        self._phase = phase_step.phase_number
        mixture = phase_step.phase.mixture
        self._mixture = Mixture(self._sizes, mixture)
        drawn = [self._numbers[one.corpus] for one in mixture] or list(self._numbers.values())
        left = np.concatenate([self._pool, *self._ready])
        left = left[np.isin(left["corpus"], drawn)]
        left[PAIR] = NO_PAIR
        self._ready = []
        self._arrange(self._cut(left, phase_step), left[:0], phase_step)

    def _draw(self, phase_step: PhaseStep) -> np.ndarray:
        """Draw a window of documents, cut into samples."""
        counts = self._mixture.take(phase_step.progress)
        if not counts:
            raise DataError(
                f"phase {phase_step.phase.name}: step {self._next + 1} finds the corpora used up, "
                "as often as their caps in the mixture allow; raise 'epochs' there or take fewer "
                "steps")
        drawn = []
        for name, count in counts.items():
            number = self._numbers[name]
            corpus = self._corpora[number]
            draws = np.arange(self._draws[name], self._draws[name] + count)
            self._draws[name] += count
            documents = document_numbers(draws, len(corpus), self._seed, number)
            drawn.append(whole_documents(documents, corpus.lengths[documents], draws, number))
        return self._cut(np.concatenate(drawn), phase_step)

    def _cut(self, samples: np.ndarray, phase_step: PhaseStep) -> np.ndarray:
        """Make samples that fit a sequence."""
        max_length = phase_step.phase.batch.max_length
        if phase_step.phase.objective.objective == "masked+nsp":
            return make_pairs(samples, self._corpora, max_length, self._seed)
        if self._packed:
            return samples  # cut where sequences are filled
        return cut_evenly(samples, self._corpora, max_length)

    def _arrange(self, waiting: np.ndarray, drawn: np.ndarray, phase_step: PhaseStep) -> None:
        """Turn samples into sequences; what does not fill a sequence or a batch waits.

        Padded sequences are sorted by length into whole batches, which are shuffled.

        Args:
            waiting: samples left over from before; they go first.
            drawn: new ones.
        """
        self._windows += 1
        self._pool = np.concatenate([waiting, drawn])
        if self._packed:
            self._pack_pool(phase_step)
            return
        size, rng = phase_step.batch_size, np.random.default_rng((self._seed, 2, self._windows))
        members = np.concatenate([np.arange(len(waiting)),
                                  len(waiting) + rng.permutation(len(drawn))])
        used = members[:len(members) // size * size]
        lengths = token_counts(self._pool)[used]
        ranked = used[np.argsort(lengths, kind="stable")].reshape(-1, size)
        for batch in rng.permutation(len(ranked)):
            self._ready.extend(self._pool[member:member + 1] for member in ranked[batch])
        self._pool = self._pool[np.sort(members[len(used):])]

    def _pack_pool(self, phase_step: PhaseStep) -> None:
        """Pack the pool into sequences, and shuffle them."""
        max_length = phase_step.phase.batch.max_length
        if phase_step.phase.objective.objective == "masked+nsp":
            sequences, left_over = pack(token_counts(self._pool), max_length, 0, None)
        else:
            cuts = _WordCuts(self._pool, self._corpora, max_length - SINGLE_SPECIALS)
            sequences, left_over = pack(self._pool["length"], max_length, SINGLE_SPECIALS, cuts)
        rng = np.random.default_rng((self._seed, 3, self._windows))
        self._ready.extend(self._part_samples(sequences[number])
                           for number in rng.permutation(len(sequences)))
        self._pool = self._part_samples(left_over)

    def _part_samples(self, parts: Sequence[PackedPart]) -> np.ndarray:
        chosen = self._pool[[part.sample for part in parts]]
        single = chosen["nsp_label"] < 0
        starts = np.array([part.start for part in parts], dtype=np.int64)
        lengths = np.array([part.length for part in parts], dtype=np.int64)
        chosen["start"][single] += starts[single]
        chosen["length"][single] = lengths[single]
        return chosen


class _WordCuts:
    """Offsets at which samples can be cut: at or just before a wanted one, at a word start.

    Word starts of samples longer than a sequence are read all at once, those of others when one
    has to be cut after all.

    Args:
        samples: (samples,) of SAMPLE.
        corpora: by the corpus numbers of samples.
        longest: tokens that fit a sequence.
    """

    def __init__(self, samples: np.ndarray, corpora: Sequence[Corpus], longest: int) -> None:
        self._samples = samples
        self._corpora = corpora
        self._starts: list[bytes | None] = [None] * len(samples)
        self._read(np.nonzero(samples["length"] > longest)[0])

    def __call__(self, sample: int, offset: int) -> int:
        """Find the offset within a sample where it can be cut."""
        if self._starts[sample] is None:
            self._read(np.array([sample]))
        starts = self._starts[sample] or b""
        found = starts.rfind(b"\1", max(offset - WORD_SLACK, 0), offset + 1)
        return found if found > 0 else offset

    def _read(self, numbers: np.ndarray) -> None:
        for corpus_number, corpus in enumerate(self._corpora):
            own = numbers[self._samples["corpus"][numbers] == corpus_number]
            chosen = self._samples[own]
            content = corpus.gather(chosen["document"], chosen["start"],
                                    chosen["length"])[1].tobytes()
            ends = np.cumsum(chosen["length"])
            for sample, end, length in zip(own, ends, chosen["length"], strict=True):
                self._starts[sample] = content[end - length:end]
