"""Sentence pairs for next-sentence prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bmtools.data.samples import FOLLOWS, PAIR_SPECIALS, RANDOM, SAMPLE
from bmtools.data.shards import Corpus
from bmtools.keyed_random import derive

_SHORT_SHARE = 0.1
_SHORTEST = 8


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
        target = room if rng.random() >= _SHORT_SHARE else int(rng.integers(_SHORTEST, room + 1))
        end = _last_border_within(borders, begin, target)
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
            wanted = min(max(target - length, _SHORTEST), room - length)
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


def _last_border_within(borders: Sequence[int], begin: int, target: int) -> int:
    """Find the last border within `target` tokens, at least one sentence on."""
    end = begin + 1
    while end + 1 < len(borders) and borders[end + 1] - borders[begin] <= target:
        end += 1
    return end


def _random_segment(corpus: Corpus, document: int, wanted: int, room: int,
                    rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw about `wanted` tokens of another document: its number, first token, length."""
    other = int(rng.integers(len(corpus)))
    if other == document:
        other = (other + 1) % len(corpus)
    borders = _borders(corpus, other, 0, int(corpus.lengths[other]), room)
    begin = int(rng.integers(len(borders) - 1))
    length = borders[_last_border_within(borders, begin, wanted)] - borders[begin]
    return other, borders[begin], min(length, wanted)
