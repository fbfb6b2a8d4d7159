"""Embeddings fitted to what a model made of the pieces; the best ones are known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bmtools.models import token_distillation
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.settings import TokenDistillationConfig
from bmtools.models.token_contexts import Occurrences, locate_pieces
from bmtools.models.token_distillation import distil_embeddings

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


def places_of(word: str, number: int, texts: list[str]) -> dict[str, list[tuple[int, int, int]]]:
    return {text: [(number, place, place + len(word)) for place in [text.find(word)]]
            for text in texts if word in text}


def fit(base: Checkpoint, located: Occurrences, starts: torch.Tensor,
        settings: TokenDistillationConfig = FAST, batch_tokens: int = 60) -> Any:
    return distil_embeddings(base, located, starts, "last", batch_tokens, settings,
                             np.random.default_rng(0))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_token_of_one_piece_comes_back_to_it(architecture: str) -> None:
    """The old embedding makes all states equal, so it is the best one; it is started off from."""
    base = base_of(architecture)
    old = base.model.get_input_embeddings().weight[
        base.tokenizer.convert_tokens_to_ids("heart")].detach()
    starts = torch.zeros(NEW + 1, len(old))
    starts[NEW] = old + 0.3 * old.std() * torch.randn(len(old))
    fitted = fit(base, locate_pieces(base, places_of("heart", NEW, TEXTS)), starts)
    assert fitted.embeddings.tokens.tolist() == [NEW]
    assert fitted.loss_after < 0.02 * fitted.loss_before
    direction = torch.nn.functional.cosine_similarity(fitted.embeddings.vectors[0], old, dim=0)
    assert direction > 0.99


def test_at_the_best_embedding_there_is_no_loss() -> None:
    base = base_of()
    starts = torch.zeros(NEW + 1, 64)
    starts[NEW] = base.model.get_input_embeddings().weight[10].detach()
    assert base.tokenizer.convert_ids_to_tokens(10) == "heart"
    fitted = fit(base, locate_pieces(base, places_of("heart", NEW, TEXTS)), starts,
                 TokenDistillationConfig(distil_epochs=1, distil_learning_rate=1e-9))
    assert fitted.loss_before < 1e-9


def test_several_pieces_become_one_place() -> None:
    """`lymphoma` is three pieces; better than their mean, and the words around keep their place."""
    base = base_of()
    table = base.model.get_input_embeddings().weight.detach()
    starts = torch.zeros(NEW + 1, 64)
    starts[NEW] = table[base.tokenizer.convert_tokens_to_ids(["lym", "##pho", "##ma"])].mean(dim=0)
    fitted = fit(base, locate_pieces(base, places_of("lymphoma", NEW, TEXTS)), starts)
    assert fitted.loss_after < 0.6 * fitted.loss_before


def test_what_a_lesson_asks() -> None:
    base = base_of()
    text = "the lymphoma of the heart"
    located = locate_pieces(base, {text: [(NEW, 4, 12), (NEW + 1, 20, 25)],
                                   "the heart": [(NEW + 1, 4, 9)]})
    slots = np.unique(located.tokens, return_inverse=True)[1]
    lesson = token_distillation._Batches(base, located, slots, 100)[0]
    assert lesson.positions.tolist() == [[0, 1, 2, 3, 0, 0, 0], [0, 1, 4, 5, 6, 7, 8]]
    assert lesson.student_mask.sum(dim=1).tolist() == [4, 7]
    assert lesson.new_tokens.tolist() == [[-1, -1, 1, -1, -1, -1, -1], [-1, -1, 0, -1, -1, 1, -1]]


def test_what_pieces_do_not_cover_exactly_is_not_fitted() -> None:
    base = base_of()
    text = "the lymphoma of the heart"
    found = fit(base, locate_pieces(base, {text: [(NEW, 4, 9)]}), torch.zeros(NEW + 1, 64))
    assert not len(found.embeddings.tokens) and (found.loss_before, found.loss_after) == (0.0, 0.0)


def test_the_model_stays_as_it_was() -> None:
    base = base_of()
    before = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    fit(base, locate_pieces(base, places_of("heart", NEW, TEXTS)), torch.zeros(NEW + 1, 64),
        TokenDistillationConfig(1))
    for name, weight in base.model.named_parameters():
        assert torch.equal(weight, before[name]) and weight.requires_grad and weight.grad is None


def test_states_of_the_teacher_are_held_or_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    base, starts = base_of(), torch.zeros(NEW + 1, 64)
    located = locate_pieces(base, places_of("heart", NEW, TEXTS))
    held = fit(base, located, starts, TokenDistillationConfig(3))
    monkeypatch.setattr(token_distillation, "_CACHED_STATE_BYTES", 1)
    again = fit(base, located, starts, TokenDistillationConfig(3))
    assert torch.equal(again.embeddings.vectors, held.embeddings.vectors)


def test_only_tokens_of_a_batch_move() -> None:
    """A step on one token leaves the other's embedding where it was."""
    base = base_of()
    starts = torch.randn(NEW + 2, 64)
    occurrences = {**places_of("heart", NEW, ["the heart"]),
                   **places_of("liver", NEW + 1, ["the liver grew in the cells"])}
    student = token_distillation._Student(base, starts[NEW:], "last")
    located = locate_pieces(base, occurrences)
    lessons = token_distillation._Batches(base, located, located.tokens - NEW, 1)
    student.loss(lessons, 0).backward()
    assert student.embeddings.grad is not None
    assert student.embeddings.grad.coalesce().indices().tolist() == [[0]]
