"""Sequences are full, no token is lost, and documents are cut only if necessary."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bmtools.data.packing import pack


def whole_words(_samples: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Words of three tokens."""
    return offsets - offsets % 3


def tokens_of(parts: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Count how often each token of each sample is in a sequence or left over."""
    seen = [np.zeros(length, dtype=int) for length in lengths]
    for sample, start, length in rows(parts):
        seen[sample][start:start + length] += 1
    return seen


def rows(parts: np.ndarray) -> list[tuple[int, int, int]]:
    """Sample, start and length of each part."""
    return [tuple(part) for part in parts[["sample", "start", "length"]].tolist()]


def sizes_of(parts: np.ndarray, overhead: int) -> np.ndarray:
    """Tokens of each sequence."""
    used = parts[parts["sequence"] >= 0]
    return np.bincount(used["sequence"], used["length"] + overhead)


@pytest.mark.parametrize("capacity", [16, 64, 128, 512])
@pytest.mark.parametrize("seed", range(5))
def test_every_token_is_packed_exactly_once(capacity: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 3 * capacity, size=200).tolist()
    parts = pack(lengths, capacity, 2, whole_words)
    assert all((seen == 1).all() for seen in tokens_of(parts, lengths))
    assert parts["length"].min() > 0
    assert (np.diff(parts["sequence"]) >= 0).all()
    sizes = sizes_of(parts, 2)
    assert sizes.max() <= capacity
    assert sizes.mean() > 0.85 * capacity  # words of three tokens do not fill a row of 16
    assert (parts["length"] + 2)[parts["sequence"] < 0].sum() < capacity


def test_samples_that_fit_are_not_cut() -> None:
    parts = pack([5, 8, 3, 5, 2], 14, 2, whole_words)
    assert sorted(rows(parts)) == [(0, 0, 5), (1, 0, 8), (2, 0, 3), (3, 0, 5), (4, 0, 2)]
    assert sizes_of(parts, 2).tolist() == [14, 14]
    assert rows(parts[parts["sequence"] < 0]) == [(2, 0, 3)]


def test_cuts_fall_between_words() -> None:
    parts = pack([100, 200, 300, 40_000], 64, 2, whole_words)
    assert len(parts["start"]) > 600
    assert not (parts["start"] % 3).any()


def test_pairs_are_never_cut() -> None:
    parts = pack([30, 40, 64, 20, 64, 10], 64, 0, None)
    assert sorted(rows(parts)) == [(0, 0, 30), (1, 0, 40), (2, 0, 64), (3, 0, 20), (4, 0, 64),
                                   (5, 0, 10)]
    assert sizes_of(parts, 0).max() <= 64


@pytest.mark.data
@pytest.mark.parametrize("capacity", [128, 512])
def test_real_abstracts_fill_99_percent(data: Path, capacity: int) -> None:
    """Lengths in words, multiplied by 1.5 to get tokens."""
    with gzip.open(data / "en/corpus/pubmed-drug-reviews.jsonl.gz") as lines:
        lengths = [len(json.loads(line)["text"].split()) * 3 // 2 for line in lines]
    assert sizes_of(pack(lengths, capacity, 2, whole_words), 2).mean() > 0.99 * capacity
