"""Samples: parts of documents, single or as pairs of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bmtools.keyed_random import choices, derive, to_uniform
from bmtools.ragged import offsets, ranges

if TYPE_CHECKING:
    from bmtools.data.shards import Corpus

SAMPLE = np.dtype([
    ("corpus", "i4"), ("draw", "i8"), ("document", "i8"), ("start", "i8"), ("length", "i8"),
    ("second_document", "i8"), ("second_start", "i8"), ("second_length", "i8"),
    ("nsp_label", "i8")])
"""A segment of a document and, in pairs, a second segment: numbers, first tokens, lengths.

`draw` counts the draws from the corpus; `nsp_label`, also of sentence-order prediction, is -1
without a second segment.
"""
PAIR = ["second_document", "second_start", "second_length", "nsp_label"]
NO_PAIR = (-1, 0, 0, -1)
SINGLE_SPECIALS = 2
PAIR_SPECIALS = 3
WORD_SLACK = 16
"""Maximum number of tokens that a cut is moved back to a word start."""
FOLLOWS, RANDOM, SWAPPED = 0, 1, 1
"""Labels of pairs, as in BERT and ALBERT: 0 if the second segment follows the first, else 1."""
_SHORT_PAIRS_SHARE = 0.1
_SHORTEST_SEGMENT = 8
_MOST_SEQUENCES = 64
"""Maximum sequences per document; longer ones are cut first, or the others would wait."""


def whole_documents(documents: np.ndarray, lengths: np.ndarray, draws: np.ndarray,
                    corpus: int = 0) -> np.ndarray:
    """Make a sample from each document of any length, (documents,) of SAMPLE."""
    samples = np.zeros(len(documents), dtype=SAMPLE)
    samples["corpus"], samples["draw"] = corpus, draws
    samples["document"], samples["length"] = documents, lengths
    samples[PAIR] = NO_PAIR
    return samples


def token_counts(samples: np.ndarray) -> np.ndarray:
    """Count the tokens of each sample, with special tokens."""
    special = np.where(samples["nsp_label"] < 0, SINGLE_SPECIALS, PAIR_SPECIALS)
    return special + samples["length"] + samples["second_length"]


def mask_keys(samples: np.ndarray, seed: int) -> np.ndarray:
    """Derive the key of each sample's masks, (samples,) uint64."""
    return derive(seed, 4, samples["corpus"], samples["draw"], samples["start"])


def cut_evenly(samples: np.ndarray, corpora: Sequence[Corpus], max_length: int) -> np.ndarray:
    """Cut samples that are too long into few parts of about equal length, between words.

    Cuts are inside a long word if no word start is near.

    Args:
        samples: (samples,) of SAMPLE, without second segments.
        corpora: corpora in the order of samples' corpus numbers.
        max_length: maximum length of a sequence, with special tokens.
    """
    longest = max_length - SINGLE_SPECIALS
    counts = count_parts(samples["length"], longest)
    parts = np.repeat(samples, counts)
    first_parts = offsets(counts)
    numbers = ranges(np.zeros_like(counts), counts)
    starts = parts["start"] + numbers * parts["length"] // counts.repeat(counts)
    moved = numbers > 0
    starts[moved] = at_word_starts(parts[moved], starts[moved], corpora, _slack(longest))
    ends = np.append(starts[1:], 0)
    ends[first_parts[1:] - 1] = samples["start"] + samples["length"]
    parts["start"], parts["length"] = starts, ends - starts
    return parts


def at_word_starts(samples: np.ndarray, offsets: np.ndarray, corpora: Sequence[Corpus],
                   slack: int) -> np.ndarray:
    """Move an offset in each sample's document back to a word start, if one is close by."""
    found = offsets.copy()
    for number, corpus in enumerate(corpora):
        own = np.flatnonzero(samples["corpus"] == number)
        if len(own):
            found[own] = corpus.at_or_before(samples["document"][own], offsets[own], slack)
    return found


def count_parts(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Count the parts that texts of these lengths are cut into, with room for moved cuts."""
    return np.where(lengths <= longest, 1, -(-lengths // (longest - _slack(longest))))


def _slack(longest: int) -> int:
    return min(WORD_SLACK, longest // 8)


def make_pairs(samples: np.ndarray, corpora: Sequence[Corpus], max_length: int,
               seed: int, swaps: bool = False) -> np.ndarray:
    """Make pairs of segments from parts of documents; half are neighbours in the right order.

    Sentences are collected up to the sequence length (in one of ten cases up to a random shorter
    length) and split at a random border. For half of the pairs, the second segment is replaced by a
    random part of a random document, and the replaced sentences begin the next pair. For
    sentence-order prediction all segments are neighbours, and half of the pairs are swapped. A
    single word without a neighbour gets a random segment, as in ALBERT's code.

    Source: Devlin et al. 2019, appendix A.2; Lan et al. 2020 (ALBERT), section 3.1. There are two
    departures. A single sentence, which BERT could only pair at random, is split between two words,
    in half of the cases or, if pairs are swapped, always. So half of all pairs are neighbours in
    the right order. Sentences longer than half a sequence are split instead of truncated, so that
    no token is lost.

    Args:
        samples: (samples,) of SAMPLE; second segments are ignored.
        corpora: corpora with sentence borders, in the order of samples' corpus numbers.
        max_length: maximum length of a pair, with special tokens.
        seed: seed of splits, random second segments and swaps.
        swaps: make pairs for sentence-order prediction instead of next-sentence prediction.
    """
    samples = cut_evenly(samples, corpora, _MOST_SEQUENCES * max_length)
    made = [np.empty(0, dtype=SAMPLE)]
    for number, corpus in enumerate(corpora):
        own = samples[samples["corpus"] == number]
        if len(own):
            made.append(_Pairing(own, corpus, max_length - PAIR_SPECIALS, seed, swaps).pairs())
    return np.concatenate(made)


class _Pairing:
    """Splitter of parts of one corpus's documents into pairs, from beginning to end.

    Tokens of all samples are numbered consecutively, so that sentence borders ascend.

    Args:
        samples: (samples,) of SAMPLE.
        corpus: corpus with sentence borders.
        room: maximum tokens of a pair, without special tokens.
        seed: seed of the keys.
        swaps: whether half of the pairs are swapped, instead of using random segments.
    """

    def __init__(self, samples: np.ndarray, corpus: Corpus, room: int, seed: int,
                 swaps: bool) -> None:
        self._samples = samples
        self._corpus = corpus
        self._room = room
        self._swaps = swaps
        self._shortest = min(_SHORTEST_SEGMENT, room)
        self._longest_sentence = max(room // 2, 1)
        self._keys = derive(seed, 5, samples["corpus"], samples["draw"], samples["start"])
        self._borders, self._firsts = self._sentences()
        # Difference between a token's position in its document and its consecutive number.
        self._shifts = samples["start"] - self._borders[self._firsts[:-1]]

    def pairs(self) -> np.ndarray:
        """Make all pairs, (pairs,) of SAMPLE."""
        waiting, begins, turn, made = np.arange(len(self._samples)), self._firsts[:-1], 0, []
        while len(waiting):
            pairs, nexts = self._next_pairs(waiting, begins, turn)
            made.append(pairs)
            goes_on = nexts < self._firsts[waiting + 1]
            waiting, begins, turn = waiting[goes_on], nexts[goes_on], turn + 1
        return np.concatenate(made)

    def _sentences(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the borders of sentences; split sentences longer than half the room.

        Returns:
            (borders,) consecutive token numbers, and (samples + 1,) index of each sample's first
            border.
        """
        samples = self._samples
        inner, counts = self._corpus.sentence_starts(
            samples["document"], samples["start"] + 1, samples["length"] - 1)
        firsts, ends = offsets(counts + 1), offsets(samples["length"])
        borders = np.empty(firsts[-1] + 1, dtype=np.int64)
        borders[firsts] = ends
        borders[ranges(firsts[:-1] + 1, counts)] = \
            inner + (ends[:-1] - samples["start"]).repeat(counts)
        lengths = np.diff(borders)
        parts = -(-lengths // self._longest_sentence)
        places = offsets(parts)
        split = borders[:-1].repeat(parts) + ranges(np.zeros_like(parts), parts) \
            * lengths.repeat(parts) // parts.repeat(parts)
        return np.append(split, borders[-1]), places[firsts]

    def _next_pairs(self, waiting: np.ndarray, begins: np.ndarray,
                    turn: int) -> tuple[np.ndarray, np.ndarray]:
        """Make the next pair of each unfinished sample.

        Args:
            waiting: (pairs,) indices of the samples.
            begins: (pairs,) border at which each pair begins.
            turn: number of earlier pairs of each sample.

        Returns:
            (pairs,) of SAMPLE, and (pairs,) border of the start of the next pair.
        """
        borders, keys = self._borders, derive(self._keys[waiting], turn)
        lengths, kinds = derive(keys, 0), derive(keys, 1)
        targets = np.where(
            to_uniform(lengths, 32) < _SHORT_PAIRS_SHARE,
            self._shortest + choices(lengths, self._room - self._shortest + 1).astype(np.int64),
            self._room)
        ends = np.searchsorted(borders, borders[begins] + targets, side="right") - 1
        ends = np.minimum(np.maximum(ends, begins + 1), self._firsts[waiting + 1])
        random = to_uniform(kinds, 32) < (0.0 if self._swaps else 0.5)
        middles = begins + 1 + choices(kinds, np.maximum(ends - begins - 1, 1)).astype(np.int64)
        splits = borders[middles]
        # A single sentence is split at a word start near its middle; a single word is not split.
        lone = np.flatnonzero((ends == begins + 1) & ~random)
        halves = self._halves(waiting[lone], begins[lone])
        random[lone] = halves <= borders[begins[lone]]
        splits[lone] = np.where(random[lone], splits[lone], halves)
        used = splits - borders[begins]
        rooms = np.minimum(np.maximum(targets - used, self._shortest), self._room - used)
        shifts, pairs = self._shifts[waiting], self._samples[waiting]
        pairs["start"], pairs["length"] = borders[begins] + shifts, used
        pairs["second_document"] = pairs["document"]
        pairs["second_start"], pairs["second_length"] = splits + shifts, borders[ends] - splits
        pairs["nsp_label"] = np.where(random, RANDOM, FOLLOWS)
        segments = self._random_segments(pairs["document"][random], rooms[random], keys[random])
        for name, values in zip(PAIR, segments, strict=False):
            pairs[name][random] = values
        if self._swaps:
            swapped = ~random & (to_uniform(derive(keys, 4), 32) < 0.5)
            for first, second in (("start", "second_start"), ("length", "second_length")):
                pairs[first][swapped], pairs[second][swapped] = \
                    pairs[second][swapped], pairs[first][swapped]
            pairs["nsp_label"][swapped] = SWAPPED
        return pairs, np.where(random, middles, ends)

    def _halves(self, samples: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Find a word start near the middle of each sentence, or its start if there is none."""
        centers = (self._borders[begins] + self._borders[begins + 1]) // 2
        shifts, documents = self._shifts[samples], self._samples["document"][samples]
        halves = self._corpus.at_or_before(documents, centers + shifts, self._longest_sentence)
        _, found = self._corpus.gather(documents, halves, np.ones_like(halves))
        return np.where(found, halves - shifts, self._borders[begins])

    def _random_segments(self, documents: np.ndarray, rooms: np.ndarray,
                         keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sample sentences of other documents, starting with the sentence of a random token.

        Returns:
            (pairs,) documents, first tokens and lengths, up to the room.
        """
        corpus = self._corpus
        others = choices(derive(keys, 2), len(corpus)).astype(np.int64)
        others = np.where(others == documents, (others + 1) % len(corpus), others)
        lengths = corpus.lengths[others].astype(np.int64)
        tokens = choices(derive(keys, 3), lengths).astype(np.int64)
        begins = corpus.sentence_at_or_before(others, tokens)
        begins += (tokens - begins) // self._longest_sentence * self._longest_sentence
        ends = np.minimum(begins + rooms, lengths)
        whole = corpus.sentence_at_or_before(others, np.minimum(ends, lengths - 1))
        ends = np.where((ends < lengths) & (whole > begins), whole, ends)
        return others, begins, ends - begins
