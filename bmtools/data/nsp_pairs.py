"""Samples: stretches of documents, alone or as pairs whose second may or may not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bmtools.data.shards import Corpus
from bmtools.keyed_random import derive

SAMPLE = np.dtype([
    ("corpus", "i4"), ("draw", "i8"), ("document", "i8"), ("first", "i8"), ("length", "i8"),
    ("other", "i8"), ("other_first", "i8"), ("other_length", "i8"), ("related", "i8")])
"""A stretch of a document and, in a pair, of another: numbers, first tokens, lengths.

`draw` counts how often the corpus was drawn from; `related` is -1 for single stretches.
"""
NO_PAIR = (-1, 0, 0, -1)
FOLLOWS, RANDOM = 0, 1
"""Labels of pairs, as in BERT."""
SINGLE_SPECIALS = 2
PAIR_SPECIALS = 3
_SHORT_SHARE = 0.1
_LEAST = 8


def special_tokens(samples: np.ndarray) -> np.ndarray:
    """Count the special tokens around each sample."""
    return np.where(samples["related"] < 0, SINGLE_SPECIALS, PAIR_SPECIALS)


def make_pairs(ranges: np.ndarray, corpora: Sequence[Corpus], max_length: int,
               seed: int) -> np.ndarray:
    """Turn stretches of documents into pairs of segments, half of them true neighbours.

    Sentences are gathered up to the length of a row (one time in ten to a random shorter one)
    and split at a random border; for half of the pairs the second segment then comes from a
    random place of a random document, and the sentences it displaced begin the next pair.

    Source: Devlin et al. 2019, appendix A.2. Departures: a lone sentence, which BERT could only
    pair at random, is split between two words for half of the time, so that half of all pairs
    are neighbours; and sentences longer than half a row are cut instead of cut off, so that no
    token is dropped.

    Args:
        ranges: (stretches,) of SAMPLE.
        corpora: what their numbers mean; with sentence borders.
        max_length: longest pair, special tokens included.
        seed: seed of splits and strangers.
    """
    pairs = [pair for one in ranges
             for pair in _pairs_of(one, corpora[one["corpus"]], max_length - PAIR_SPECIALS, seed)]
    return np.array(pairs, dtype=SAMPLE)


def _pairs_of(one: np.void, corpus: Corpus, room: int, seed: int) -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(int(derive(seed, 5, one["corpus"], one["draw"], one["first"])))
    borders = _borders(corpus, int(one["document"]), int(one["first"]), int(one["length"]), room)
    place, last = 0, len(borders) - 1
    while place < last:
        target = room if rng.random() >= _SHORT_SHARE else int(rng.integers(_LEAST, room + 1))
        end = _reach(borders, place, target)
        is_random = rng.random() < 0.5
        if end - place == 1 and not is_random:
            half = _half(corpus, int(one["document"]), borders[place], borders[end])
            is_random = half is None
            if half is not None:
                borders.insert(end, half)
                end, last = end + 1, last + 1
        middle = place + 1 + int(rng.integers(max(end - place - 1, 1)))
        if is_random:
            size = borders[middle] - borders[place]
            wanted = min(max(target - size, _LEAST), room - size)
            yield (*_head(one), borders[place], size,
                   *_stranger(corpus, int(one["document"]), wanted, room, rng), RANDOM)
            place = middle
        else:
            yield (*_head(one), borders[place], borders[middle] - borders[place],
                   int(one["document"]), borders[middle], borders[end] - borders[middle], FOLLOWS)
            place = end


def _head(one: np.void) -> tuple[int, int, int]:
    return int(one["corpus"]), int(one["draw"]), int(one["document"])


def _borders(corpus: Corpus, document: int, first: int, length: int, room: int) -> list[int]:
    """Where sentences begin within a stretch, its end included; none is over half a row."""
    starts = corpus.sentence_starts(document)
    inside = starts[(starts > first) & (starts < first + length)]
    borders = [first]
    for border in [*inside.tolist(), first + length]:
        pieces = -(-(border - borders[-1]) // max(room // 2, 1))
        begun = borders[-1]
        borders += [begun + (border - begun) * piece // pieces for piece in range(1, pieces + 1)]
    return borders


def _half(corpus: Corpus, document: int, first: int, end: int) -> int | None:
    """Where a word begins near the middle of a sentence; None where it is one word."""
    wanted = (first + end) // 2
    found = int(corpus.word_start_at_or_before(
        np.array([document]), np.array([wanted]), wanted - first)[0])
    return found if found > first else None


def _reach(borders: Sequence[int], place: int, target: int) -> int:
    """The last border within `target` tokens, one sentence on at least."""
    end = place + 1
    while end + 1 < len(borders) and borders[end + 1] - borders[place] <= target:
        end += 1
    return end


def _stranger(corpus: Corpus, document: int, wanted: int, room: int,
              rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw a segment of about `wanted` tokens from another document: its number, first, length."""
    other = int(rng.integers(len(corpus)))
    if other == document:
        other = (other + 1) % len(corpus)
    borders = _borders(corpus, other, 0, int(corpus.lengths[other]), room)
    place = int(rng.integers(len(borders) - 1))
    length = borders[_reach(borders, place, wanted)] - borders[place]
    return other, borders[place], min(length, wanted)
