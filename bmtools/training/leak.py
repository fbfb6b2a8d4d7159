"""Held-out documents that stand in the training text, found by runs of tokens.

Tokens are compared, as a run has no others; what is a leak in words is one in tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmtools.corpus.duplicates.words import HashIndex, mix, run_hashes
from bmtools.errors import BmtoolsWarning, setting

if TYPE_CHECKING:
    from bmtools.data.shards import Corpus

_RUN_TOKENS = 16  # some twelve words
_LEAST_SHARE = 0.5  # of a document's runs: formulas of reports have fewer
_MOST_HELD_OUT = 1_000_000  # tokens
_MOST_TRAINING = 20_000_000  # tokens, half a second
_WINDOW = 1 << 16


@dataclass(frozen=True)
class Leak:
    """Held-out documents that stand in training text.

    Args:
        found: of which at least half of the runs do.
        documents: that were looked for, all with a run of tokens.
        share: of the training text that was read.
    """

    found: int
    documents: int
    share: float


def warn_of_leak(held_out: Corpus, training: Sequence[Corpus], name: str) -> None:
    """Warn where held-out documents stand in the training text.

    Args:
        held_out: documents to evaluate on.
        training: corpora to train on.
        name: setting that names the former.
    """
    leak = find_leak(held_out, training)
    if leak.found:
        read = "" if leak.share == 1 else f", of which {leak.share:.1%} was read"
        warnings.warn(BmtoolsWarning(
            f"{setting(name)}: {leak.found:,} of {leak.documents:,} documents stand in the "
            f"training text{read}, so their loss says little; bmtools decontaminate leaves them "
            "out of it"),
            stacklevel=2)


def find_leak(held_out: Corpus, training: Sequence[Corpus]) -> Leak:
    """Look for held-out documents in training text, of large corpora in samples of both."""
    hashes, documents = _held_out_runs(held_out)
    counts = np.bincount(documents)
    index = HashIndex(hashes)
    seen = np.zeros(len(hashes), dtype=bool)
    total = sum(corpus.tokens for corpus in training)
    share = min(1.0, _MOST_TRAINING / max(total, 1))
    for ids in _windows(training, share):
        for _, numbers in index.find(_runs(ids)):
            seen[numbers] = True
    shared = np.bincount(documents[seen], minlength=len(counts))
    return Leak(int(((counts > 0) & (shared >= _LEAST_SHARE * counts)).sum()),
                int((counts > 0).sum()), share)


def _held_out_runs(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs of the first documents, and the number of the document of each."""
    most = int(np.searchsorted(np.cumsum(corpus.lengths, dtype=np.int64), _MOST_HELD_OUT)) + 1
    numbers = np.arange(min(most, len(corpus)))
    lengths = corpus.lengths[numbers].astype(np.int64)
    ids, _ = corpus.gather(numbers, np.zeros_like(numbers), lengths)
    ends = np.cumsum(lengths).repeat(lengths)[:max(0, len(ids) - _RUN_TOKENS + 1)]
    is_within = np.arange(len(ends)) + _RUN_TOKENS <= ends
    return _runs(ids)[is_within], numbers.repeat(lengths)[:len(ends)][is_within]


def _windows(training: Sequence[Corpus], share: float) -> Iterator[np.ndarray]:
    """Yield tokens of training text, in windows at equal distances."""
    for corpus in training:
        for shard in corpus.shards:
            for start in np.arange(0, len(shard.ids), _WINDOW / share).astype(int).tolist():
                yield shard.ids[start:start + _WINDOW + _RUN_TOKENS - 1]


def _runs(ids: np.ndarray) -> np.ndarray:
    """Hash the runs of so many tokens, (tokens - run + 1,) uint64."""
    [(_, hashes)] = run_hashes(mix(ids.astype(np.uint64) + np.uint64(1)), [_RUN_TOKENS])
    return hashes
