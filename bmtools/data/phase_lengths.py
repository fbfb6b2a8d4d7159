"""Lengths of phases: steps for an epoch of text, and the text that a token attends to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bmtools.data.sampler import Sampler, document_numbers
from bmtools.data.samples import SINGLE_SPECIALS, count_parts, token_counts
from bmtools.data.shards import Corpus, DocumentBatch
from bmtools.errors import BmtoolsError, setting
from bmtools.ragged import offsets
from bmtools.recipes.phases import Phase, Schedule, count_steps

# Sequences of a sample. Pairs need more, because their lengths vary; packed sequences are all full.
_PAIRS_SAMPLE = 4096
_PACKED_SAMPLE = 1024
_BLOCK = 1 << 20  # documents whose lengths are in memory at a time
_MOST_EPOCHS = 16  # for a text that is smaller than a sample


def resolve_steps(phases: Sequence[Phase], corpora: Mapping[str, Corpus], packed: bool,
                  seed: int = 0) -> Schedule:
    """Convert epochs and tokens to steps: exact for padded single documents, otherwise sampled.

    Args:
        phases: phases of the run.
        corpora: corpora by name.
        packed: whether documents share sequences.
        seed: seed of the sample.

    Raises:
        BmtoolsError: the decay of a wsd schedule begins within its warm-up steps.
    """
    schedule = Schedule(phases, [
        phase.length.steps or count_steps(phase, *epoch_size(phase, corpora, packed, seed))
        for phase in phases])
    for phase, steps in zip(phases, schedule.steps_per_phase, strict=True):
        rate = phase.learning_rate
        most = steps - round(rate.decay_ratio * steps)
        if rate.schedule == "wsd" and most < rate.warmup_steps <= steps:
            raise BmtoolsError(f"phase {phase.name!r}: {setting('warmup_steps')}: found "
                               f"{rate.warmup_steps}, expected at most {most}: the decay of the "
                               f"schedule begins after {most} of {steps} steps; lower "
                               f"{setting('decay_ratio')}, or set fewer")
    return schedule


def epoch_size(phase: Phase, corpora: Mapping[str, Corpus], packed: bool,
               seed: int = 0) -> tuple[float, float]:
    """Count the sequences in an epoch of a phase, and the average tokens of a sequence.

    The tokens of text in an epoch of a mixture equal the tokens of its corpora together; caps are
    ignored. For the arguments see `resolve_steps`.
    """
    shares = _shares(phase, corpora)
    counts = np.array([_count_sequences(phase, corpora[name], packed, seed) for name in shares])
    text = np.array([[corpora[name].tokens] for name in shares])
    sequences, tokens = np.array(list(shares.values())) @ (counts / text)
    return float(text.sum() * sequences), float(tokens / sequences)


def _shares(phase: Phase, corpora: Mapping[str, Corpus]) -> dict[str, float]:
    """Return the share of each corpus in the tokens of a phase."""
    weights = phase.mixture or {name: corpus.tokens for name, corpus in corpora.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _count_sequences(phase: Phase, corpus: Corpus, packed: bool,
                     seed: int) -> tuple[float, float]:
    """Count the sequences in an epoch of a corpus and their tokens, with special tokens."""
    max_length = phase.batch.max_length
    term = phase.objective.pair_term
    if not packed and not term:
        found = sum(int(count_parts(lengths, max_length - SINGLE_SPECIALS).sum())
                    for lengths in _blocks(corpus))
        return found, corpus.tokens + SINGLE_SPECIALS * found

    def size(text: Corpus) -> float:
        """Estimate a size that is proportional to the number of sequences.

        A short document needs a complete padded sequence, or a long pair with a random segment.
        """
        return float(sum(np.maximum(lengths, max_length).sum() for lengths in _blocks(text))) \
            if term == "nsp" or not packed else text.tokens + SINGLE_SPECIALS * len(text)

    wanted = max_length * (_PAIRS_SAMPLE if term else _PACKED_SAMPLE)
    sample = _sample_documents(corpus, wanted / size(corpus), seed)
    epochs = min(math.ceil(wanted / size(sample)), _MOST_EPOCHS)
    counted = replace(phase, batch=replace(phase.batch, batch_size=1), mixture={})
    sampler = Sampler({"sample": sample}, Schedule([counted], [2**62]), packed, seed)
    lengths: list[int] = []
    while True:
        plan = sampler.batch(len(lengths))
        if plan.following.window.draws.get("sample", 0) >= epochs * len(sample):
            break  # a window after the last epoch
        lengths.append(int(token_counts(plan.sequences.samples).sum()))
    scale = size(corpus) / (epochs * size(sample))
    return len(lengths) * scale, sum(lengths) * scale


def _sample_documents(corpus: Corpus, share: float, seed: int) -> Corpus:
    """Copy a random share of documents; return the corpus if the share is complete."""
    count = math.ceil(len(corpus) * share)
    if count >= len(corpus):
        return corpus
    documents = document_numbers(np.arange(count), len(corpus), seed, 0)
    lengths = corpus.lengths[documents].astype(np.int64)
    firsts, sentences = np.zeros_like(lengths), None
    ids, word_starts = corpus.gather(documents, firsts, lengths)
    if corpus.has_sentences:
        starts, counts = corpus.sentence_starts(documents, firsts, lengths)
        sentences = starts + offsets(lengths)[:-1].repeat(counts)
    return Corpus.of(DocumentBatch(ids, word_starts, lengths, sentences))


def attended_tokens(phase: Phase, corpora: Mapping[str, Corpus]) -> int:
    """Average the tokens that a token attends to: the tokens of its document or part.

    Documents are assumed to be cut into equal parts. Pairs count as full sequences.
    """
    if phase.objective.pair_term:
        return phase.batch.max_length
    return round(sum(share * _mean_span(corpora[name], phase.batch.max_length - SINGLE_SPECIALS)
                     for name, share in _shares(phase, corpora).items()))


def _mean_span(corpus: Corpus, longest: int) -> float:
    tokens = squares = 0.0
    for lengths in _blocks(corpus):
        parts = count_parts(lengths, longest)
        totals = lengths + SINGLE_SPECIALS * parts
        tokens += totals.sum()
        squares += (totals * (totals / parts)).sum()
    return squares / tokens


def _blocks(corpus: Corpus) -> Iterator[np.ndarray]:
    """Yield the lengths of a corpus's documents, int64, in blocks, so that copies stay small."""
    for start in range(0, len(corpus), _BLOCK):
        yield corpus.lengths[start:start + _BLOCK].astype(np.int64)
