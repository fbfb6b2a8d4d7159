"""Pairs made of many documents at a time equal those made one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pytest
from toy_corpora import EncodedDocument, corpus_of

from bmtools.data.samples import (
    FOLLOWS,
    RANDOM,
    SAMPLE,
    SWAPPED,
    cut_evenly,
    make_pairs,
    whole_documents,
)
from bmtools.keyed_random import choices, derive, to_uniform

SEED = 3


def documents(count: int, longest: int, sentence: int) -> list[EncodedDocument]:
    """Documents, the last of one token, with words and sentences of random lengths."""
    rng = np.random.default_rng(count)
    made = []
    for length in [*rng.integers(1, longest, count - 1), 1]:
        starts = rng.random(length) < 0.4
        starts[0] = True
        sentences = np.flatnonzero(starts & (rng.random(length) < 1 / sentence))
        made.append(EncodedDocument(rng.integers(5, 90, length), starts,
                                    np.union1d([0], sentences)))
    return made


def number_of(key: int, purpose: int) -> np.ndarray:
    return derive(key, np.array([purpose]))


def uniform(key: int, purpose: int) -> float:
    return float(to_uniform(number_of(key, purpose), 32)[0])


def choice(key: int, purpose: int, count: int) -> int:
    return int(choices(number_of(key, purpose), count)[0])


def borders_of(document: EncodedDocument, start: int, length: int, half: int) -> list[int]:
    """Sentence borders of a part, long sentences split evenly."""
    assert document.sentences is not None
    inside = [int(token) for token in document.sentences if start < token < start + length]
    borders = [start]
    for border in [*inside, start + length]:
        begin = borders[-1]
        parts = -(-(border - begin) // half)
        borders += [begin + (border - begin) * part // parts for part in range(1, parts + 1)]
    return borders


def slowly(given: list[EncodedDocument], sample: np.void, room: int,
           swaps: bool) -> Iterator[tuple[int, ...]]:
    """Pairs of a sample one after the other, by the definition."""
    keys = int(derive(SEED, 5, sample["corpus"], sample["draw"], sample["start"]))
    number, half, shortest = int(sample["document"]), max(room // 2, 1), min(8, room)
    document = given[number]
    borders = borders_of(document, int(sample["start"]), int(sample["length"]), half)
    begin, turn = 0, 0
    while begin < len(borders) - 1:
        key = int(derive(keys, turn))
        turn += 1
        target = shortest + choice(key, 0, room - shortest + 1) if uniform(key, 0) < 0.1 else room
        end = max(bisect_right(borders, borders[begin] + target) - 1, begin + 1)
        random = not swaps and uniform(key, 1) < 0.5
        middle = begin + 1 + choice(key, 1, max(end - begin - 1, 1))
        split = borders[middle]
        if end == begin + 1 and not random:
            center = (borders[begin] + borders[end]) // 2
            words = [token for token in range(borders[begin] + 1, center + 1)
                     if document.word_starts[token]]
            random = not words
            split = split if random else words[-1]
        length = split - borders[begin]
        draw = int(sample["draw"])
        head = (0, draw, number, borders[begin], length)
        if random:
            wanted = min(max(target - length, shortest), room - length)
            yield (*head, *random_segment(given, number, wanted, half, key), RANDOM)
            begin = middle
        elif swaps and uniform(key, 4) < 0.5:
            yield (0, draw, number, split, borders[end] - split, number, borders[begin], length,
                   SWAPPED)
            begin = end
        else:
            yield (*head, number, split, borders[end] - split, FOLLOWS)
            begin = end


def random_segment(given: list[EncodedDocument], number: int, wanted: int, half: int,
                   key: int) -> tuple[int, int, int]:
    other = choice(key, 2, len(given))
    if other == number:
        other = (other + 1) % len(given)
    document = given[other]
    assert document.sentences is not None
    token = choice(key, 3, len(document.ids))
    begin = max(int(one) for one in document.sentences if one <= token)
    begin += (token - begin) // half * half
    end = min(begin + wanted, len(document.ids))
    if end < len(document.ids):
        end = max([int(one) for one in document.sentences if begin < one <= end], default=end)
    return other, begin, end - begin


@pytest.mark.parametrize("max_length", [8, 24, 64, 512])
@pytest.mark.parametrize("sentence", [4, 40])
@pytest.mark.parametrize("swaps", [False, True])
def test_pairs_equal_those_made_one_by_one(max_length: int, sentence: int, swaps: bool) -> None:
    given = documents(60, 700, sentence)
    corpus, numbers = corpus_of(given), np.arange(60)
    whole = whole_documents(numbers, corpus.lengths, numbers + 100)
    found = make_pairs(whole, [corpus], max_length, SEED, swaps)
    parts = cut_evenly(whole, [corpus], 64 * max_length)
    expected = np.array([pair for sample in parts
                         for pair in slowly(given, sample, max_length - 3, swaps)],
                        dtype=SAMPLE)
    order = ["draw", "start"]
    assert np.array_equal(np.sort(found, order=order), np.sort(expected, order=order))
    assert len(found) > 60 and set(found["nsp_label"]) == {FOLLOWS, RANDOM}
