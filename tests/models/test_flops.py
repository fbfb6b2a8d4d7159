"""Counted operations against those that torch counts while a model runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import DebertaV2Config

from bmtools.models.architectures import build_config, build_model
from bmtools.models.flops import scored_pairs, training_flops_per_token
from bmtools.models.mlm import encode, masked_lm_loss
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import train_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENIZER = train_tokenizer(["il cuore pompa il sangue"] * 3,
                            VocabularyConfig(size=100, allow_fewer=True))
ROWS = 2


def counted(config: Any, max_length: int, asked: int) -> float:
    """Operations a token of a forward and a backward pass, as torch counts them.

    Eager attention is made of plain products; fused kernels are counted with what they compute
    twice, or not at all.
    """
    model = build_model(config).train()
    model.set_attn_implementation("eager")
    ids = torch.full((ROWS, max_length), 5)
    with FlopCounterMode(display=False) as counter:
        states = encode(model, ids, ids > 0)[:, :asked].flatten(0, 1)
        masked_lm_loss(model, states, ids[:, :asked].flatten())[0].backward()
    return counter.get_total_flops() / ids.numel()


@pytest.mark.parametrize("name", ["bert-2x64", "roberta-3x128", "megatron-bert-2x128",
                                  "modernbert-4x64"])
@pytest.mark.parametrize(("max_length", "asked"), [(32, 4), (200, 30), (96, 96)])
def test_operations_are_those_that_torch_counts(name: str, max_length: int, asked: int) -> None:
    config = build_config(name, TOKENIZER)
    found = training_flops_per_token(config, max_length, asked / max_length, windowed=False)
    assert found == pytest.approx(counted(config, max_length, asked), rel=1e-3)


def test_the_head_counts_where_something_is_asked() -> None:
    config = build_config("bert-base", TOKENIZER)
    none, some, every = (training_flops_per_token(config, 128, rate) or 0.0
                         for rate in (0, 0.15, 1))
    assert some - none == pytest.approx(0.15 * (every - none))
    assert every - none == 6 * 768 * (768 + len(TOKENIZER))


def test_six_operations_a_weight_is_the_rule_of_thumb() -> None:
    """Without attention, each weight of a matrix takes 6 operations a token."""
    config = build_config("bert-base", TOKENIZER)
    matrices = 12 * 12 * 768**2
    found = training_flops_per_token(config, 1, 0) or 0.0
    assert found == pytest.approx(6 * matrices, rel=1e-3)


@pytest.mark.parametrize(("max_length", "window"), [(1, 4), (5, 4), (5, 5), (40, 4), (9, None)])
def test_scored_pairs_are_those_of_the_mask(max_length: int, window: int | None) -> None:
    near = window is None
    pairs = sum(near or abs(a - b) <= (window or 0)
                for a in range(max_length) for b in range(max_length))
    assert scored_pairs(max_length, window) == pairs


def test_windows_spare_modernbert_most_scores() -> None:
    """Two of three layers look 64 tokens to either side."""
    config = build_config("modernbert-6x64", TOKENIZER)
    near, everywhere = (training_flops_per_token(config, 1_000, 0, windowed) or 0.0
                        for windowed in (True, False))
    spared = 4 * (1_000 - scored_pairs(1_000, 64) / 1_000)
    assert everywhere - near == pytest.approx(6 * 2 * 64 * spared)


def test_unknown_layers_are_not_guessed() -> None:
    assert training_flops_per_token(DebertaV2Config(), 128, 0.15) is None
