"""Samples: parts of documents, alone or as pairs of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bmtools.data.masking.ragged import offsets, ranges
from bmtools.keyed_random import derive

SAMPLE = np.dtype([
    ("corpus", "i4"), ("draw", "i8"), ("document", "i8"), ("start", "i8"), ("length", "i8"),
    ("second_document", "i8"), ("second_start", "i8"), ("second_length", "i8"),
    ("nsp_label", "i8")])
"""A segment of a document and, in a pair, of another: numbers, first tokens, lengths.

`draw` counts the draws from the corpus; `nsp_label`, also of sentence-order prediction, is -1
without a second segment.
"""
PAIR = ["second_document", "second_start", "second_length", "nsp_label"]
NO_PAIR = (-1, 0, 0, -1)
SINGLE_SPECIALS = 2
PAIR_SPECIALS = 3
WORD_SLACK = 16
"""Most tokens that a cut moves back to a word start."""


def whole_documents(documents: np.ndarray, lengths: np.ndarray, draws: np.ndarray,
                    corpus: int = 0) -> np.ndarray:
    """Make a sample of each document, whatever its length, (documents,) of SAMPLE."""
    samples = np.zeros(len(documents), dtype=SAMPLE)
    samples["corpus"], samples["draw"] = corpus, draws
    samples["document"], samples["length"] = documents, lengths
    samples[PAIR] = NO_PAIR
    return samples


def token_counts(samples: np.ndarray) -> np.ndarray:
    """Count the tokens of each sample, special tokens included."""
    special = np.where(samples["nsp_label"] < 0, SINGLE_SPECIALS, PAIR_SPECIALS)
    return special + samples["length"] + samples["second_length"]


def mask_keys(samples: np.ndarray, seed: int) -> np.ndarray:
    """Derive the key of each sample's masks, (samples,) uint64."""
    return derive(seed, 4, samples["corpus"], samples["draw"], samples["start"])


class HasWordStarts(Protocol):
    """Documents with known word starts, such as a `Corpus`."""

    def word_start_at_or_before(self, documents: np.ndarray, offsets: np.ndarray,
                                slack: int) -> np.ndarray:
        """Move offsets within documents back to word starts, by `slack` tokens at most."""


def cut_evenly(samples: np.ndarray, corpora: Sequence[HasWordStarts],
               max_length: int) -> np.ndarray:
    """Cut samples that are too long into few parts of about equal length, between words.

    Words of many tokens are cut, too, where no word start is near.

    Args:
        samples: (samples,) of SAMPLE, without second segments.
        corpora: by the corpus numbers of samples.
        max_length: longest sequence, special tokens included.
    """
    longest = max_length - SINGLE_SPECIALS
    counts = count_parts(samples["length"], longest)
    parts = np.repeat(samples, counts)
    first_parts = offsets(counts)
    numbers = ranges(np.zeros_like(counts), counts)
    starts = parts["start"] + numbers * parts["length"] // counts.repeat(counts)
    for number, corpus in enumerate(corpora):
        moved = np.nonzero((parts["corpus"] == number) & (numbers > 0))[0]
        if len(moved):
            starts[moved] = corpus.word_start_at_or_before(
                parts["document"][moved], starts[moved], _slack(longest))
    ends = np.append(starts[1:], 0)
    ends[first_parts[1:] - 1] = samples["start"] + samples["length"]
    parts["start"], parts["length"] = starts, ends - starts
    return parts


def count_parts(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Count the parts that texts of these lengths are cut into, moved cuts allowed for."""
    return np.where(lengths <= longest, 1, -(-lengths // (longest - _slack(longest))))


def _slack(longest: int) -> int:
    return min(WORD_SLACK, longest // 8)
