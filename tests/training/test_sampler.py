"""Rows cut from documents, and the order in which they come."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.corpus.rows import Sampler, cut_rows
from bmtools.errors import DataError


def document(length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    starts = rng.random(length) < 0.5
    if length:
        starts[0] = True
    return rng.integers(5, 90, size=length).astype(np.int32), starts


def test_rows_hold_every_token_once_and_one_document_each() -> None:
    documents = [document(length, length) for length in (3, 0, 10, 11, 57, 200)]
    rows = cut_rows(documents, 10)
    assert (rows.ids == np.concatenate([ids for ids, _ in documents])).all()
    assert rows.lengths().max() <= 10
    assert rows.lengths().min() >= 1
    ends = np.cumsum([len(ids) for ids, _ in documents])
    assert set(ends) <= set(rows.borders.tolist())


def test_no_row_begins_inside_a_word_that_would_fit() -> None:
    rows = cut_rows([document(500)], 20)
    assert rows.starts[rows.borders[:-1]].all()


def test_a_word_longer_than_a_row_is_cut() -> None:
    ids = np.arange(25, dtype=np.int32)
    starts = np.zeros(25, dtype=bool)
    starts[0] = True
    assert cut_rows([(ids, starts)], 10).lengths().tolist() == [9, 8, 8]


def test_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="no text to train on"):
        cut_rows([document(0)], 10)


@pytest.mark.parametrize(("rows", "size"), [(256, 4), (37, 8), (5, 8), (3_000, 16)])
def test_every_epoch_holds_every_row_and_little_twice(rows: int, size: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=rows)
    sampler = Sampler(lengths, size, seed=3)
    each = sampler.batches_per_epoch
    epochs = [np.concatenate([sampler.batch(epoch * each + n) for n in range(each)])
              for epoch in range(2)]
    for found in epochs:
        assert set(found) == set(range(rows))
        assert len(found) < rows + size
    assert (epochs[0] != epochs[1]).any()


def test_a_batch_depends_on_seed_and_number_alone() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=37)
    forward = Sampler(lengths, 8, seed=1)
    expected = [forward.batch(number) for number in range(200)]
    backward = Sampler(lengths, 8, seed=1)
    for number in reversed(range(200)):
        assert (backward.batch(number) == expected[number]).all()
    assert any((Sampler(lengths, 8, seed=2).batch(n) != expected[n]).any() for n in range(3))


def test_rows_of_a_batch_are_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 65, size=5_000)
    sampler = Sampler(lengths, 32, seed=0)
    batches = [lengths[sampler.batch(number)] for number in range(100)]
    filled = sum(batch.sum() for batch in batches) / sum(batch.max() * 32 for batch in batches)
    assert filled > 0.95
