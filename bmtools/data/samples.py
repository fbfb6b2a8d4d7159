"""Samples: parts of documents that fit a sequence, alone or as pairs of segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from bmtools.data.shards import Corpus
from bmtools.keyed_random import derive
from bmtools.masking.ragged import offsets, ranges

SAMPLE = np.dtype([
    ("corpus", "i4"), ("draw", "i8"), ("document", "i8"), ("start", "i8"), ("length", "i8"),
    ("second_document", "i8"), ("second_start", "i8"), ("second_length", "i8"),
    ("nsp_label", "i8")])
"""A segment of a document and, in a pair, of another: numbers, first tokens, lengths.

`draw` counts the draws from the corpus; `nsp_label` is -1 without a second segment.
"""
PAIR = ["second_document", "second_start", "second_length", "nsp_label"]
NO_PAIR = (-1, 0, 0, -1)
FOLLOWS, RANDOM = 0, 1
"""Labels of next-sentence prediction, as in BERT."""
SINGLE_SPECIALS = 2
PAIR_SPECIALS = 3
WORD_SLACK = 16
"""Most tokens that a cut moves back to a word start."""
_SHORT_PAIRS_SHARE = 0.1
_SHORTEST_SEGMENT = 8


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


def make_pairs(samples: np.ndarray, corpora: Sequence[Corpus], max_length: int,
               seed: int) -> np.ndarray:
    """Turn parts of documents into pairs of segments, half of them true neighbours.

    Sentences are collected up to the sequence length (one time in ten to a random shorter one)
    and split at a random border; for half of the pairs the second segment then comes from a
    random part of a random document, and the sentences it displaced begin the next pair.

    Source: Devlin et al. 2019, appendix A.2. Departures: a lone sentence, which BERT could only
    pair at random, is split between two words for half of the time, so that half of all pairs
    are neighbours; and sentences longer than half a sequence are split instead of truncated, so
    that no token is dropped.

    Args:
        samples: (samples,) of SAMPLE; second segments are ignored.
        corpora: by the corpus numbers of samples; with sentence borders.
        max_length: longest pair, special tokens included.
        seed: seed of splits and random second segments.
    """
    pairs = [pair for sample in samples
             for pair in _pairs_of(sample, corpora[sample["corpus"]], max_length - PAIR_SPECIALS,
                                   seed)]
    return np.array(pairs, dtype=SAMPLE)


def _pairs_of(sample: np.void, corpus: Corpus, room: int, seed: int) -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(
        int(derive(seed, 5, sample["corpus"], sample["draw"], sample["start"])))
    head = tuple(int(sample[name]) for name in ("corpus", "draw", "document"))
    document = int(sample["document"])
    borders = _borders(corpus, document, int(sample["start"]), int(sample["length"]), room)
    begin, last = 0, len(borders) - 1
    while begin < last:
        target = room if rng.random() >= _SHORT_PAIRS_SHARE \
            else int(rng.integers(_SHORTEST_SEGMENT, room + 1))
        end = max(bisect_right(borders, borders[begin] + target) - 1, begin + 1)
        is_random = rng.random() < 0.5
        if end - begin == 1 and not is_random:
            # Split a lone sentence at a word start near its middle; one word stays whole.
            center = (borders[begin] + borders[end]) // 2
            half = int(corpus.word_start_at_or_before(
                np.array([document]), np.array([center]), center - borders[begin])[0])
            is_random = half <= borders[begin]
            if not is_random:
                borders.insert(end, half)
                end, last = end + 1, last + 1
        middle = begin + 1 + int(rng.integers(max(end - begin - 1, 1)))
        length = borders[middle] - borders[begin]
        if is_random:
            wanted = min(max(target - length, _SHORTEST_SEGMENT), room - length)
            second = _random_segment(corpus, document, wanted, room, rng)
            yield (*head, borders[begin], length, *second, RANDOM)
            begin = middle
        else:
            yield (*head, borders[begin], length,
                   document, borders[middle], borders[end] - borders[middle], FOLLOWS)
            begin = end


def _borders(corpus: Corpus, document: int, start: int, length: int, room: int) -> list[int]:
    """List the first tokens of sentences in a part of a document, and its end.

    Sentences longer than half of the room are split.
    """
    starts = corpus.sentence_starts(document)
    inside = starts[(starts > start) & (starts < start + length)]
    borders = [start]
    for border in [*inside.tolist(), start + length]:
        begin = borders[-1]
        parts = -(-(border - begin) // max(room // 2, 1))
        borders += [begin + (border - begin) * part // parts for part in range(1, parts + 1)]
    return borders


def _random_segment(corpus: Corpus, document: int, wanted: int, room: int,
                    rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw about `wanted` tokens of another document: its number, first token, length."""
    other = int(rng.integers(len(corpus)))
    if other == document:
        other = (other + 1) % len(corpus)
    borders = _borders(corpus, other, 0, int(corpus.lengths[other]), room)
    begin = int(rng.integers(len(borders) - 1))
    end = max(bisect_right(borders, borders[begin] + wanted) - 1, begin + 1)
    length = borders[end] - borders[begin]
    return other, borders[begin], min(length, wanted)
