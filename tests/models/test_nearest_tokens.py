"""Neighbours of new tokens against a search by hand."""

from __future__ import annotations

import pytest
import torch
from transformers import BertTokenizer

from bmtools.models.architectures import build_config, build_model
from bmtools.models.vocab_overlap import find_overlap, nearest_tokens

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = BertTokenizer(vocab={token: n for n, token in enumerate(
    [*SPECIAL, "heart", "liver", "milk", "bread", "##oma", "kid", "##ney"])})
NEW = BertTokenizer(vocab={token: n for n, token in enumerate(
    [*SPECIAL, "bread", "milk", "kidney", "liver", "heart", "ab"])})


def test_the_nearest_come_first_and_none_is_special() -> None:
    model = build_model(build_config("bert-1x64", NEW))
    table = model.get_input_embeddings().weight.detach()
    table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(0)))
    liver, heart, kidney = (table[NEW.convert_tokens_to_ids(word)]
                            for word in ("liver", "heart", "kidney"))
    kidney.copy_(liver + 0.5 * heart)
    table[NEW.mask_token_id] = 3 * kidney
    origins = find_overlap(OLD, NEW)
    [told] = nearest_tokens(OLD, NEW, model, origins, 5, seed=0, nearest=2)
    assert told["token"] == "kidney"  # `ab` is told only where there is nothing longer
    assert told["neighbours"] == ["liver", "heart"]
    expected = torch.nn.functional.cosine_similarity(kidney, liver, dim=0).item()
    assert told["cosines"][0] == pytest.approx(expected, abs=1e-3)


def test_no_new_tokens_have_no_neighbours() -> None:
    model = build_model(build_config("bert-1x64", OLD))
    assert nearest_tokens(OLD, OLD, model, find_overlap(OLD, OLD), 5, seed=0) == []
