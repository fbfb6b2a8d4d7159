"""Lengths of phases: steps for an epoch of text, and caps that end a mixture's text early."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bmtools.data.sampler import Sampler
from bmtools.data.samples import (
    SINGLE_SPECIALS,
    count_parts,
    make_pairs,
    token_counts,
    whole_documents,
)
from bmtools.data.shards import Corpus, EncodedDocument
from bmtools.data.shuffle import document_numbers
from bmtools.errors import BmtoolsError, DataError
from bmtools.ragged import offsets
from bmtools.recipes.phases import MixtureWeight, Phase, Schedule, count_steps
from bmtools.recipes.settings import PhaseLengthConfig

# Sequences of a sample: the lengths of pairs vary, packed documents fill all sequences alike.
_PAIRS_SAMPLE = 4096
_PACKED_SAMPLE = 1024
_SPAN_SAMPLE = 1024
_BLOCK = 1 << 20  # documents whose lengths are held at a time
_MOST_EPOCHS = 16  # of a text that is smaller than a sample
_CAP_SLACK = 0.02  # for the chance in a sample
_POINTS = 101  # of a phase, where weights of a mixture are averaged


def resolve_steps(phases: Sequence[Phase], corpora: Mapping[str, Corpus], packed: bool,
                  seed: int = 0) -> Schedule:
    """Turn epochs and tokens into steps: exactly for padded single documents, else by a sample.

    Args:
        phases: of the run.
        corpora: by name.
        packed: whether documents share sequences.
        seed: of the sample.
    """
    return Schedule(phases, [
        phase.length.steps or count_steps(phase, *epoch_size(phase, corpora, packed, seed))
        for phase in phases])


def epoch_size(phase: Phase, corpora: Mapping[str, Corpus], packed: bool,
               seed: int = 0) -> tuple[float, float]:
    """Count the sequences of a phase's epoch, and the average tokens of a sequence.

    An epoch of a mixture has as many tokens of text as its corpora together; caps are left out.
    Arguments are those of `resolve_steps`.
    """
    mixture = phase.mixture or [MixtureWeight(name, corpus.tokens)
                                for name, corpus in corpora.items()]
    chosen = [corpora[one.corpus] for one in mixture]
    counts = np.array([_count_sequences(phase, corpus, packed, seed) for corpus in chosen])
    text = np.array([[corpus.tokens] for corpus in chosen])
    # Sequences are spread evenly over a phase, text is not where weights change.
    progress = np.linspace(0, 1, _POINTS)
    weights = np.array([one.weight + (one.last_weight - one.weight) * progress
                        for one in mixture])
    sequences, tokens = np.einsum("cp,ck->kp", weights / weights.sum(axis=0), counts / text)
    return float(text.sum() / (1 / sequences).mean()), float((tokens / sequences).mean())


def _count_sequences(phase: Phase, corpus: Corpus, packed: bool,
                     seed: int) -> tuple[float, float]:
    """Count the sequences of a corpus's epoch and their tokens, special ones included."""
    max_length = phase.batch.max_length
    term = phase.objective.pair_term
    if not packed and not term:
        found = sum(int(count_parts(lengths, max_length - SINGLE_SPECIALS).sum())
                    for lengths in _blocks(corpus))
        return found, corpus.tokens + SINGLE_SPECIALS * found

    def size(text: Corpus) -> float:
        """Estimate what sequences grow with: a short document fills a padded one, or a pair.

        A random segment makes most short documents long pairs.
        """
        return float(sum(np.maximum(lengths, max_length).sum() for lengths in _blocks(text))) \
            if term == "nsp" or not packed else text.tokens + SINGLE_SPECIALS * len(text)

    wanted = max_length * (_PAIRS_SAMPLE if term else _PACKED_SAMPLE)
    sample = _sample_documents(corpus, wanted / size(corpus), seed)
    epochs = min(math.ceil(wanted / size(sample)), _MOST_EPOCHS)
    counted = replace(phase, batch=replace(phase.batch, batch_size=1),
                      mixture=(MixtureWeight("sample", 1.0, epochs=epochs),))
    sampler = Sampler({"sample": sample}, Schedule([counted], [2**62]), packed, seed)
    lengths: list[int] = []
    with contextlib.suppress(DataError):  # used up
        while True:
            samples = sampler.batch(len(lengths)).sequences.samples
            lengths.append(int(token_counts(samples).sum()))
    scale = size(corpus) / (epochs * size(sample))
    return len(lengths) * scale, sum(lengths) * scale


def _sample_documents(corpus: Corpus, share: float, seed: int) -> Corpus:
    """Copy a random share of documents; return the corpus itself if that is all of them."""
    count = math.ceil(len(corpus) * share)
    if count >= len(corpus):
        return corpus
    documents = document_numbers(np.arange(count), len(corpus), seed, 0)
    lengths = corpus.lengths[documents].astype(np.int64)
    firsts, borders = np.zeros_like(lengths), offsets(lengths)[1:-1]
    parts = [np.split(values, borders) for values in corpus.gather(documents, firsts, lengths)]
    if corpus.has_sentences:
        starts, counts = corpus.sentence_starts(documents, firsts, lengths)
        parts.append(np.split(starts, offsets(counts)[1:-1]))
    return Corpus.of(EncodedDocument(*each) for each in zip(*parts, strict=True))


def attended_tokens(phase: Phase, corpora: Mapping[str, Corpus], seed: int = 0) -> int:
    """Average the tokens that a token attends to: those of its document, part of one, or pair.

    Single documents are all counted, as if cut into equal parts, pairs are those of a sample.
    """
    mixture = phase.mixture or [MixtureWeight(name, corpus.tokens)
                                for name, corpus in corpora.items()]
    weights = [one.weight + one.last_weight for one in mixture]
    count = _mean_span_of_pairs if phase.objective.pair_term else _mean_span_of_parts
    return round(float(np.average([count(phase, corpora[one.corpus], seed) for one in mixture],
                                  weights=weights)))


def _mean_span_of_parts(phase: Phase, corpus: Corpus, _seed: int) -> float:
    longest, tokens, squares = phase.batch.max_length - SINGLE_SPECIALS, 0.0, 0.0
    for lengths in _blocks(corpus):
        parts = count_parts(lengths, longest)
        totals = lengths + SINGLE_SPECIALS * parts
        tokens += totals.sum()
        squares += (totals * (totals / parts)).sum()
    return squares / tokens


def _mean_span_of_pairs(phase: Phase, corpus: Corpus, seed: int) -> float:
    max_length = phase.batch.max_length
    count = math.ceil(len(corpus) * min(_SPAN_SAMPLE * max_length / corpus.tokens, 1))
    draws = np.arange(min(count, _SPAN_SAMPLE))
    documents = document_numbers(draws, len(corpus), seed, 0)
    whole = whole_documents(documents, corpus.lengths[documents], draws)
    lengths = token_counts(make_pairs(whole, [corpus], max_length, seed,
                                      phase.objective.pair_term == "sop"))
    return float((lengths**2).sum() / lengths.sum())


def _blocks(corpus: Corpus) -> Iterator[np.ndarray]:
    """Yield the lengths of a corpus's documents, int64, some at a time: no copy is as long."""
    for start in range(0, len(corpus), _BLOCK):
        yield corpus.lengths[start:start + _BLOCK].astype(np.int64)


def check_mixture_limits(schedule: Schedule, corpora: Mapping[str, Corpus], packed: bool,
                         seed: int = 0) -> None:
    """Refuse a phase that would use its corpora up, before it starts.

    A corpus of a mixture without a cap goes on alone when others are used up.

    Raises:
        BmtoolsError: the caps allow fewer steps than the phase takes.
    """
    for phase, steps in zip(schedule.phases, schedule.steps_per_phase, strict=True):
        if not phase.mixture or any(math.isinf(one.epochs) for one in phase.mixture):
            continue
        # The steps that each corpus alone lasts up to its cap.
        alone = [replace(phase, length=PhaseLengthConfig(epochs=one.epochs),
                         mixture=(replace(one, weight=1.0, end_weight=None),))
                 for one in phase.mixture]
        most = resolve_steps(alone, corpora, packed, seed).steps
        if steps > most * (1 + _CAP_SLACK):
            raise BmtoolsError(
                f"phase {phase.name!r}: mixture: found caps that allow about {most} steps, "
                f"expected {steps}; raise 'epochs' there or take fewer steps")
