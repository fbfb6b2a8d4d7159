"""Sequences are full, nothing is lost, and documents are cut only where they must be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from bmtools.data.packing import PackedPart, pack


def whole_words(_sample: int, offset: int) -> int:
    """Words of three tokens."""
    return offset - offset % 3


def tokens_of(parts: Sequence[PackedPart], lengths: Sequence[int]) -> list[np.ndarray]:
    """How often each token of each sample is in a sequence or left over."""
    seen = [np.zeros(length, dtype=int) for length in lengths]
    for part in parts:
        seen[part.sample][part.start:part.start + part.length] += 1
    return seen


@pytest.mark.parametrize("capacity", [16, 64, 128, 512])
@pytest.mark.parametrize("seed", range(5))
def test_every_token_lies_in_one_place(capacity: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 3 * capacity, size=200).tolist()
    sequences, left_over = pack(lengths, capacity, 2, whole_words)
    assert all((seen == 1).all() for seen in tokens_of([*chain(*sequences), *left_over], lengths))
    sizes = [sum(part.length + 2 for part in row) for row in sequences]
    assert max(sizes) <= capacity
    assert np.mean(sizes) > 0.85 * capacity  # words of three tokens do not fill a row of 16
    assert sum(part.length + 2 for part in left_over) < capacity


def test_what_fits_is_not_cut() -> None:
    sequences, left_over = pack([5, 8, 3, 5, 2], 14, 2, whole_words)
    assert [sorted((part.sample, part.start, part.length) for part in row)
            for row in sequences] == [[(1, 0, 8), (4, 0, 2)], [(0, 0, 5), (3, 0, 5)]]
    assert [(part.sample, part.length) for part in left_over] == [(2, 3)]


def test_cuts_fall_between_words() -> None:
    sequences, _ = pack([100, 200, 300], 64, 2, whole_words)
    assert all(part.start % 3 == 0 for row in sequences for part in row)


def test_pairs_are_never_cut() -> None:
    sequences, left_over = pack([30, 40, 64, 20, 64, 10], 64, 0, None)
    assert all(part.start == 0 for row in sequences for part in row)
    parts = [part for row in sequences for part in row] + left_over
    assert sorted(part.sample for part in parts) == [0, 1, 2, 3, 4, 5]


def test_too_little_waits_for_more() -> None:
    sequences, left_over = pack([5, 6], 64, 2, whole_words)
    assert sequences == []
    assert [part.length for part in left_over] == [5, 6]


@pytest.mark.data
@pytest.mark.parametrize("capacity", [128, 512])
def test_real_abstracts_fill_99_percent(data: Path, capacity: int) -> None:
    """Lengths in words, by half more for tokens."""
    with gzip.open(data / "en/corpus/pubmed-drug-reviews.jsonl.gz") as lines:
        lengths = [len(json.loads(line)["text"].split()) * 3 // 2 for line in lines]
    sequences, _ = pack(lengths, capacity, 2, whole_words)
    used = sum(part.length + 2 for row in sequences for part in row)
    assert used / (capacity * len(sequences)) > 0.99
