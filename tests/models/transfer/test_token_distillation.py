"""Embeddings fitted to what a model made of the pieces; the best ones are known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.settings import TokenDistillationConfig
from bmtools.models.transfer import token_distillation
from bmtools.models.transfer.context_embeddings import Occurrences, locate_pieces
from bmtools.models.transfer.token_distillation import distil_embeddings

pytestmark = pytest.mark.usefixtures("one_thread")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "in", "of", "was", "grew", "heart", "liver", "lym", "##pho", "##ma", "cells"]
ORGANS = ("heart", "liver", "lymphoma")
TEXTS = [f"the {first} {verb} in the {second} of the cells" for first in ORGANS
         for second in ORGANS for verb in ("grew", "was")]
NEW = 40
FAST = TokenDistillationConfig(distil_epochs=60, distil_learning_rate=0.02)
ARCHITECTURES = ("bert-2x64", "roberta-2x64", "megatron-bert-2x64", "modernbert-2x64")


def base_of(architecture: str = "bert-2x64") -> Checkpoint:
    words = BertTokenizer(vocab={token: n for n, token in enumerate([*SPECIAL, *WORDS])})
    torch.manual_seed(0)
    model = build_model(build_config(architecture, words)).eval()
    with torch.no_grad():  # embeddings of a trained model are told apart by what follows
        model.get_input_embeddings().weight.mul_(10)
    return Checkpoint(Path(), model, words, "")


def spans_of(word: str, number: int, texts: list[str]) -> dict[str, list[tuple[int, int, int]]]:
    return {text: [(number, start, start + len(word)) for start in [text.find(word)]]
            for text in texts if word in text}


def fit(base: Checkpoint, located: Occurrences, starts: torch.Tensor,
        settings: TokenDistillationConfig = FAST, batch_tokens: int = 60) -> Any:
    return distil_embeddings(base, located, starts, "last", batch_tokens, settings,
                             np.random.default_rng(0))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_token_of_one_piece_recovers_its_embedding(architecture: str) -> None:
    """The old embedding makes all states equal, so it is the best one; it is started off from."""
    base = base_of(architecture)
    old = base.model.get_input_embeddings().weight[
        base.tokenizer.convert_tokens_to_ids("heart")].detach()
    starts = torch.zeros(NEW + 1, len(old))
    starts[NEW] = old + 0.3 * old.std() * torch.randn(len(old))
    fitted, before, after = fit(base, locate_pieces(base, spans_of("heart", NEW, TEXTS)), starts)
    assert fitted.tokens.tolist() == [NEW]
    assert after < 0.02 * before
    direction = torch.nn.functional.cosine_similarity(fitted.vectors[0], old, dim=0)
    assert direction > 0.99


def test_at_the_best_embedding_there_is_no_loss() -> None:
    base = base_of()
    starts = torch.zeros(NEW + 1, 64)
    starts[NEW] = base.model.get_input_embeddings().weight[10].detach()
    assert base.tokenizer.convert_ids_to_tokens(10) == "heart"
    _, before, _ = fit(base, locate_pieces(base, spans_of("heart", NEW, TEXTS)), starts,
                       TokenDistillationConfig(distil_epochs=1, distil_learning_rate=1e-9))
    assert before < 1e-9


def test_several_pieces_become_one_position() -> None:
    """`lymphoma` is three pieces; its fit beats their mean, and other words keep positions."""
    base = base_of()
    table = base.model.get_input_embeddings().weight.detach()
    starts = torch.zeros(NEW + 1, 64)
    starts[NEW] = table[base.tokenizer.convert_tokens_to_ids(["lym", "##pho", "##ma"])].mean(dim=0)
    _, before, after = fit(base, locate_pieces(base, spans_of("lymphoma", NEW, TEXTS)), starts)
    assert after < 0.6 * before


def test_student_inputs_have_one_position_for_each_new_token() -> None:
    base = base_of()
    text = "the lymphoma of the heart"
    located = locate_pieces(base, {text: [(NEW, 4, 12), (NEW + 1, 20, 25)],
                                   "the heart": [(NEW + 1, 4, 9)]})
    rows = np.unique(located.tokens, return_inverse=True)[1]
    *_, positions, mask, new_tokens = token_distillation._Batches(base, located, rows, 100)[0]
    assert positions.tolist() == [[0, 1, 2, 3, 0, 0, 0], [0, 1, 4, 5, 6, 7, 8]]
    assert mask.sum(dim=1).tolist() == [4, 7]
    assert new_tokens.tolist() == [[-1, -1, 1, -1, -1, -1, -1], [-1, -1, 0, -1, -1, 1, -1]]


def test_occurrences_not_covered_exactly_are_not_fitted() -> None:
    base = base_of()
    text = "the lymphoma of the heart"
    found, *losses = fit(base, locate_pieces(base, {text: [(NEW, 4, 9)]}), torch.zeros(NEW + 1, 64))
    assert not len(found.tokens) and losses == [0.0, 0.0]


def test_an_inexact_occurrence_does_not_displace_an_exact_one() -> None:
    """Of those that share pieces the first exact one is fitted, and what follows it is not lost."""
    base = base_of()
    text = "the lymphoma of the heart"
    spans = [(NEW, 4, 9), (NEW + 1, 4, 12), (NEW + 2, 7, 12), (NEW + 3, 20, 25)]
    located = locate_pieces(base, {text: spans, "the heart": [(NEW + 3, 4, 9)]})
    found, *_ = fit(base, located, torch.zeros(NEW + 4, 64), TokenDistillationConfig(1))
    assert found.tokens.tolist() == [NEW + 1, NEW + 3]


def test_the_model_stays_as_it_was() -> None:
    base = base_of()
    before = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    fit(base, locate_pieces(base, spans_of("heart", NEW, TEXTS)), torch.zeros(NEW + 1, 64),
        TokenDistillationConfig(1))
    for name, weight in base.model.named_parameters():
        assert torch.equal(weight, before[name]) and weight.requires_grad and weight.grad is None


def test_teacher_states_are_cached_or_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    base, starts = base_of(), torch.zeros(NEW + 1, 64)
    located = locate_pieces(base, spans_of("heart", NEW, TEXTS))
    cached, *_ = fit(base, located, starts, TokenDistillationConfig(3))
    monkeypatch.setattr(token_distillation, "_CACHED_STATE_BYTES", 1)
    again, *_ = fit(base, located, starts, TokenDistillationConfig(3))
    assert torch.equal(again.vectors, cached.vectors)


def test_only_tokens_of_a_batch_move() -> None:
    """A step on one token leaves the other's embedding where it was."""
    base = base_of()
    starts = torch.randn(NEW + 2, 64)
    occurrences = {**spans_of("heart", NEW, ["the heart"]),
                   **spans_of("liver", NEW + 1, ["the liver grew in the cells"])}
    student = token_distillation._Student(base, starts[NEW:], "last")
    located = locate_pieces(base, occurrences)
    batches = token_distillation._Batches(base, located, located.tokens - NEW, 1)
    student.loss(batches, 0).backward()
    assert student.embeddings.grad is not None
    assert student.embeddings.grad.coalesce().indices().tolist() == [[0]]
