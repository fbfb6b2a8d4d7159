"""The rows of a run, one batch after the other: a function of seed and settings alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bmtools.data.nsp_pairs import NO_PAIR, SAMPLE, SINGLE_SPECIALS, make_pairs, special_tokens
from bmtools.data.packing import PackedSequences, pack
from bmtools.data.shards import Corpus
from bmtools.data.shuffle import CorpusSize, Mixture, document_numbers
from bmtools.errors import DataError
from bmtools.keyed_random import derive
from bmtools.recipes.schedule import PhaseStep, Schedule

_WORD_SLACK = 16


@dataclass(frozen=True)
class BatchPlan:
    """Contents of a batch.

    Args:
        samples: (samples,) of SAMPLE, those of a sequence next to each other.
        sequences: (samples,) number of the sequence that holds each, from 0.
        phase_step: the step of the schedule that it is for.
    """

    samples: np.ndarray
    sequences: np.ndarray
    phase_step: PhaseStep

    def __len__(self) -> int:
        return int(self.sequences[-1]) + 1 if len(self.sequences) else 0

    def select(self, numbers: np.ndarray) -> BatchPlan:
        """Keep some sequences, in the order given, and renumber them."""
        renumbered = np.full(len(self), -1)
        renumbered[numbers] = np.arange(len(numbers))
        sequences = renumbered[self.sequences]
        kept = np.nonzero(sequences >= 0)[0]
        kept = kept[np.argsort(sequences[kept], kind="stable")]
        return BatchPlan(self.samples[kept], sequences[kept], self.phase_step)


class Sampler:
    """Documents in keyed order, cut, paired or packed into rows, in batches by number.

    Which document a draw shows, where it is cut and what is hidden in it depend on the seed and
    the draw's number, not on processes, micro-batches or sittings. A resumed run walks the order
    again without touching the text, which takes a few seconds per ten million documents. Where a
    phase ends, what was drawn but not shown goes first in the next one, if that draws from the
    same corpus.

    Args:
        corpora: by name.
        timeline: the phases, and how long each is.
        packed: whether documents share rows.
        seed: seed of the order.
    """

    def __init__(self, corpora: Mapping[str, Corpus], timeline: Schedule, packed: bool,
                 seed: int) -> None:
        self._corpora = list(corpora.values())
        self._numbers = {name: number for number, name in enumerate(corpora)}
        self._stocks = corpus_sizes(corpora)
        self._timeline = timeline
        self._packed = packed
        self._seed = seed
        self._restart()

    def batch(self, number: int) -> BatchPlan:
        """Plan batch `number`, from 0."""
        if number < self._next:
            self._restart()
        while True:
            plan = self._advance()
            if self._next == number + 1:
                return plan

    def _restart(self) -> None:
        self._next = 0
        self._phase = -1
        self._draws = dict.fromkeys(self._numbers, 0)
        self._pool = np.empty(0, dtype=SAMPLE)
        self._ready: list[np.ndarray] = []
        self._windows = 0

    def _advance(self) -> BatchPlan:
        stage = self._timeline.phase_step(self._next)
        if stage.phase_number != self._phase:
            self._begin(stage)
        taken = self._take(stage)
        self._next += 1
        sizes = [len(samples) for samples in taken]
        return BatchPlan(np.concatenate(taken), np.repeat(np.arange(len(taken)), sizes), stage)

    def _begin(self, stage: PhaseStep) -> None:
        """Enter a phase; what the last one left over is cut and paired in its manner."""
        self._phase = stage.phase_number
        self._mixture = Mixture(self._stocks, stage.phase.mixture)
        drawn = {self._numbers[name] for name in self._mixture_names(stage)}
        left = np.concatenate([self._pool, *self._ready])
        left = left[np.isin(left["corpus"], list(drawn))]
        left[["other", "other_first", "other_length", "related"]] = NO_PAIR
        self._ready = []
        self._pool = self._samples(left, stage)
        self._lay(stage, len(self._pool))

    def _mixture_names(self, stage: PhaseStep) -> Sequence[str]:
        return [portion.corpus for portion in stage.phase.mixture] or list(self._numbers)

    def _take(self, stage: PhaseStep) -> list[np.ndarray]:
        """Take the rows of one batch; draw and lay out more documents until there are enough."""
        while len(self._ready) < stage.batch_size:
            waiting = len(self._pool)
            self._pool = np.concatenate([self._pool, self._samples(self._draw(stage), stage)])
            self._lay(stage, waiting)
        taken, self._ready = self._ready[:stage.batch_size], self._ready[stage.batch_size:]
        return taken

    def _draw(self, stage: PhaseStep) -> np.ndarray:
        """Draw a window of whole documents."""
        counts = self._mixture.take(stage.progress)
        if not counts:
            raise DataError(
                f"phase {stage.phase.name}: step {self._next + 1} finds the corpora used up, as "
                "often as their caps in the mixture allow; raise 'epochs' there or take fewer "
                "steps")
        parts = []
        for name, count in counts.items():
            number = self._numbers[name]
            part = np.zeros(count, dtype=SAMPLE)
            draws = np.arange(self._draws[name], self._draws[name] + count)
            self._draws[name] += count
            part["corpus"], part["draw"] = number, draws
            part["document"] = document_numbers(draws, len(self._corpora[number]), self._seed,
                                                number)
            part["length"] = self._corpora[number].lengths[part["document"]]
            part[["other", "other_first", "other_length", "related"]] = NO_PAIR
            parts.append(part)
        return np.concatenate(parts)

    def _samples(self, ranges: np.ndarray, stage: PhaseStep) -> np.ndarray:
        """Turn stretches of documents into samples that fit a row."""
        rows = stage.phase.batch
        if stage.phase.objective.objective == "masked+nsp":
            return make_pairs(ranges, self._corpora, rows.max_length, self._seed)
        if self._packed:
            return ranges  # cut where rows are filled
        return cut_evenly(ranges, self._corpora, rows.max_length)

    def _lay(self, stage: PhaseStep, waiting: int) -> None:
        """Lay the pool out in rows; what fills no row or no batch waits.

        Args:
            waiting: samples at the pool's beginning that have waited already; they go first.
        """
        self._windows += 1
        if self._packed:
            self._lay_packed(stage)
        else:
            self._lay_padded(stage, waiting)

    def _lay_padded(self, stage: PhaseStep, waiting: int) -> None:
        """Sort the pool by length into whole batches, and shuffle those."""
        size = stage.batch_size
        rng = np.random.default_rng((self._seed, 2, self._windows))
        members = np.concatenate([np.arange(waiting),
                                  waiting + rng.permutation(len(self._pool) - waiting)])
        used = members[:len(members) // size * size]
        tokens = special_tokens(self._pool) + self._pool["length"] + self._pool["other_length"]
        ranked = used[np.argsort(tokens[used], kind="stable")].reshape(-1, size)
        for batch in rng.permutation(len(ranked)):
            self._ready.extend(self._pool[member:member + 1] for member in ranked[batch])
        self._pool = self._pool[np.sort(members[len(used):])]

    def _lay_packed(self, stage: PhaseStep) -> None:
        """Fill rows from the pool, and shuffle them."""
        packed = self._pack(stage)
        rng = np.random.default_rng((self._seed, 3, self._windows))
        self._ready.extend(self._parts(packed.rows[place])
                           for place in rng.permutation(len(packed.rows)))
        self._pool = self._parts(packed.left)

    def _pack(self, stage: PhaseStep) -> PackedSequences:
        max_length = stage.phase.batch.max_length
        if stage.phase.objective.objective == "masked+nsp":
            sizes = special_tokens(self._pool) + self._pool["length"] + self._pool["other_length"]
            return pack(sizes, max_length, 0, None)
        return pack(self._pool["length"], max_length, SINGLE_SPECIALS,
                    _WordCuts(self._pool, self._corpora, max_length - SINGLE_SPECIALS))

    def _parts(self, parts: Sequence) -> np.ndarray:
        chosen = self._pool[[part.sample for part in parts]]
        single = chosen["related"] < 0
        first = np.array([part.first for part in parts], dtype=np.int64)
        length = np.array([part.length for part in parts], dtype=np.int64)
        chosen["first"][single] += first[single]
        chosen["length"][single] = length[single]
        return chosen


class _WordCuts:
    """Where samples can be cut: at or just before a wanted place, where a word begins.

    Word starts of samples that are longer than a row are read all at once, those of others when
    one has to be cut after all.

    Args:
        samples: (samples,) of SAMPLE.
        corpora: what their numbers mean.
        longest: tokens that fit a row.
    """

    def __init__(self, samples: np.ndarray, corpora: Sequence[Corpus], longest: int) -> None:
        self._samples = samples
        self._corpora = corpora
        self._starts: list[bytes | None] = [None] * len(samples)
        self._read(np.nonzero(samples["length"] > longest)[0])

    def __call__(self, sample: int, offset: int) -> int:
        """Offset within a sample where it can be cut."""
        if self._starts[sample] is None:
            self._read(np.array([sample]))
        starts = self._starts[sample]
        assert starts is not None
        found = starts.rfind(b"\1", max(offset - _WORD_SLACK, 0), offset + 1)
        return found if found > 0 else offset

    def _read(self, numbers: np.ndarray) -> None:
        for corpus_number, corpus in enumerate(self._corpora):
            mine = numbers[self._samples["corpus"][numbers] == corpus_number]
            chosen = self._samples[mine]
            content = corpus.gather(chosen["document"], chosen["first"],
                                    chosen["length"])[1].tobytes()
            ends = np.cumsum(chosen["length"])
            for sample, end, length in zip(mine, ends, chosen["length"], strict=True):
                self._starts[sample] = content[end - length:end]


def corpus_sizes(corpora: Mapping[str, Corpus]) -> dict[str, CorpusSize]:
    """Count documents and tokens of each corpus."""
    return {name: CorpusSize(len(corpus), corpus.tokens) for name, corpus in corpora.items()}


class HasWordStarts(Protocol):
    """Documents whose word starts are known."""

    def word_start_at_or_before(self, documents: np.ndarray, offsets: np.ndarray,
                                slack: int) -> np.ndarray:
        """Move offsets back to where a word begins; see `Corpus.word_start_at_or_before`."""
        ...


def cut_evenly(ranges: np.ndarray, corpora: Sequence[HasWordStarts],
               max_length: int) -> np.ndarray:
    """Cut stretches that are too long into few pieces of like length, between words.

    Args:
        ranges: (stretches,) of SAMPLE, single ones.
        corpora: what their numbers mean.
        max_length: longest row, special tokens included.
    """
    longest = max_length - SINGLE_SPECIALS
    pieces = count_pieces(ranges["length"], longest)
    cut = np.repeat(ranges, pieces)
    number = np.arange(len(cut)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    of = np.repeat(pieces, pieces)
    begins = cut["first"] + number * cut["length"] // of
    inner = number > 0
    begins[inner] = _word_borders(cut[inner], corpora, begins[inner], _slack(longest))
    ends = np.append(begins[1:], 0)
    last = number == of - 1
    ends[last] = (cut["first"] + cut["length"])[last]
    cut["first"], cut["length"] = begins, ends - begins
    return cut


def _word_borders(samples: np.ndarray, corpora: Sequence[HasWordStarts], wanted: np.ndarray,
                  slack: int) -> np.ndarray:
    """Move wanted borders back to where a word begins, by `slack` tokens at most."""
    found = wanted.copy()
    for number, corpus in enumerate(corpora):
        mine = np.nonzero(samples["corpus"] == number)[0]
        if len(mine):
            found[mine] = corpus.word_start_at_or_before(
                samples["document"][mine], wanted[mine], slack)
    return found


def _slack(longest: int) -> int:
    return min(_WORD_SLACK, longest // 8)


def count_pieces(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Pieces that stretches of these lengths are cut into, moved borders allowed for."""
    return np.where(lengths <= longest, 1, -(-lengths // (longest - _slack(longest))))


def mask_keys(samples: np.ndarray, seed: int) -> np.ndarray:
    """What each sample's masks are drawn from, (samples,) uint64."""
    return derive(seed, 4, samples["corpus"], samples["draw"], samples["first"])
