"""Batches by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bmtools.corpus.rows import Rows, cut_rows
from bmtools.masking.corruption import IGNORED
from bmtools.training.batches import RowBatches
from bmtools.training.settings import RowSettings
from bmtools.vocab.encoding import encode

TEXTS = [f"Il cuore pompa il sangue {'e il polmone filtra aria ' * n}." for n in range(9)]


@pytest.fixture
def rows(tokenizer: Any) -> Rows:
    return cut_rows(((text.ids, text.starts) for text in encode(tokenizer, TEXTS)), 30)


def test_rows_stand_between_their_special_tokens(rows: Rows, tokenizer: Any) -> None:
    batch = RowBatches(rows, RowSettings(batch_size=4), tokenizer, 0).batch(0)
    ids, attended = batch.inputs["ids"], batch.inputs["attended"]
    labels = batch.inputs["labels"]
    assert batch.counts["tokens"] == int(attended.sum())
    assert batch.counts["masked"] == int((labels != IGNORED).sum()) > 0
    assert (ids[:, 0] == tokenizer.cls_token_id).all()
    assert (ids[~attended] == tokenizer.pad_token_id).all()
    for row in range(4):
        last = int(attended[row].sum()) - 1
        assert ids[row, last] == tokenizer.sep_token_id
        assert labels[row, 0] == labels[row, last] == IGNORED


def test_masking_hides_and_asks_the_same_tokens(rows: Rows, tokenizer: Any) -> None:
    settings = RowSettings(batch_size=8, mask_rate=0.3, masked_share=1.0, random_share=0.0)
    shown = RowBatches(rows, settings, tokenizer, 0).batch(3).inputs
    asked = shown["labels"] != IGNORED
    assert ((shown["ids"] == tokenizer.mask_token_id) == asked).all()


def test_causal_labels_are_the_next_tokens(rows: Rows, tokenizer: Any) -> None:
    batch = RowBatches(rows, RowSettings(batch_size=4, objective="causal"), tokenizer, 0).batch(0)
    ids, attended, labels = (batch.inputs[name] for name in ("ids", "attended", "labels"))
    asked = labels != IGNORED
    assert (asked[:, :-1] == attended[:, 1:]).all()
    assert not asked[:, -1].any()
    assert (labels[asked] == ids.roll(-1, dims=1)[asked]).all()
    assert batch.counts["predicted"] == batch.counts["tokens"] - 4


def test_a_batch_depends_on_seed_and_number_alone(rows: Rows, tokenizer: Any) -> None:
    first = RowBatches(rows, RowSettings(batch_size=4), tokenizer, 7)
    other = RowBatches(rows, RowSettings(batch_size=4), tokenizer, 7)
    expected = [first.batch(number).inputs for number in range(12)]
    for number in reversed(range(12)):
        for name, value in other.batch(number).inputs.items():
            assert torch.equal(value, expected[number][name])


def test_processes_share_a_batch_without_changing_it(rows: Rows, tokenizer: Any) -> None:
    batch = RowBatches(rows, RowSettings(batch_size=6), tokenizer, 0).batch(1)
    shares = [batch.share(rank, 3) for rank in range(3)]
    assert all(share.counts == batch.counts for share in shares)
    together = np.concatenate([share.inputs["ids"] for share in shares])
    assert sorted(map(tuple, together)) == sorted(map(tuple, batch.inputs["ids"].numpy()))
