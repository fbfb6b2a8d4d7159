"""Losses against those of transformers and against formulas written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy_batches import make_batch, packed_of, taught_by
from toy_models import join_nsp_head

from bmtools.data.masking.corruption import IGNORED
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.training.objectives import (
    CausalObjective,
    MaskedObjective,
)


@pytest.fixture
def batch(tokenizer: Any) -> dict[str, torch.Tensor]:
    return make_batch(tokenizer)


@pytest.mark.parametrize("kind", [MaskedObjective, CausalObjective])
def test_packed_losses_are_those_of_padded_sequences(model: Any, batch: dict, kind: type) -> None:
    objective = kind(model.eval())
    padded = objective(**batch)
    prepare_packed(model)
    for name, value in objective(**packed_of(batch)).items():
        torch.testing.assert_close(value, padded[name], rtol=1e-5, atol=1e-5)


def gradients(objective: Any, inputs: dict) -> list[torch.Tensor]:
    """All sums, and the gradients of the first."""
    sums = objective(**inputs)
    weights = [weight for weight in objective.parameters() if weight.requires_grad]
    return [*sums.values(), *torch.autograd.grad(next(iter(sums.values())), weights,
                                                 materialize_grads=True, allow_unused=True)]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("task", ["masked", "causal", "masked+nsp", "distillation"])
def test_inputs_made_before_a_pass_change_nothing(
        model: Any, batch: dict, task: str, packed: bool, padded: bool) -> None:
    """Padding is neither scored nor counted."""
    objective = {
        "masked": lambda: MaskedObjective(model), "causal": lambda: CausalObjective(model),
        "masked+nsp": lambda: MaskedObjective(model, NextSentenceHead(64), "nsp"),
        "distillation": lambda: taught_by(model, model)}[task]()
    objective.eval()
    if task == "masked+nsp":
        batch["token_type_ids"] = (torch.arange(12) > 5).long().repeat(4, 1)
    inputs = batch
    if packed:
        prepare_packed(model)
        inputs = packed_of(batch)
    if task == "masked+nsp":
        inputs["nsp_labels"] = torch.tensor([0, 1, 1, 0])
    prepared = objective.prepare(inputs, padded)
    assert objective.prepare(prepared, padded).keys() == prepared.keys()
    for one, other in zip(gradients(objective, prepared), gradients(objective, inputs),
                          strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    if packed:
        assert prepared["lengths"].tokens % 64 == 0 or not padded


@pytest.mark.parametrize("term", ["nsp", "sop"])
def test_sentence_pairs_have_the_loss_of_bert(model: Any, tokenizer: Any, batch: dict,
                                              term: str) -> None:
    """Both losses against BertForPreTraining, which has the same heads in one model."""
    objective = MaskedObjective(model.eval(), NextSentenceHead(64), term)
    types = (torch.arange(12) > 5).long().expand(4, 12)
    nsp_labels = torch.tensor([0, 1, 1, 0])
    found = objective(**batch, token_type_ids=types, nsp_labels=nsp_labels)
    joined = join_nsp_head(model, objective.head)
    theirs = joined(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long(),
                    token_type_ids=types, labels=batch["labels"], next_sentence_label=nsp_labels)
    masked = (batch["labels"] != IGNORED).sum()
    torch.testing.assert_close(found["mlm"] / masked + found[term] / 4, theirs.loss)
    right = (theirs.seq_relationship_logits.argmax(-1) == nsp_labels).sum()
    assert int(found[f"{term}_accuracy"]) == int(right)


def test_masked_loss_is_that_of_transformers(model: Any, batch: dict) -> None:
    masked = int((batch["labels"] != IGNORED).sum())
    ours = MaskedObjective(model.eval())(**batch)["mlm"] / masked
    theirs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long(),
                   labels=batch["labels"]).loss
    torch.testing.assert_close(ours, theirs)


def test_causal_loss_is_that_of_a_decoder(model: Any, batch: dict) -> None:
    from transformers import BertLMHeadModel

    ids, attention_mask = batch["input_ids"], batch["attention_mask"]
    labels = torch.full_like(ids, IGNORED)
    labels[:, :-1] = ids[:, 1:].where(attention_mask[:, 1:], torch.tensor(IGNORED))
    ours = CausalObjective(model.eval())(ids, labels,
                                         attention_mask)["causal"] / (labels != -100).sum()

    decoder = BertLMHeadModel(type(model.config)(**{**model.config.to_dict(), "is_decoder": True}))
    decoder.load_state_dict(model.state_dict())
    theirs = decoder.eval()(input_ids=ids, attention_mask=attention_mask.long(), use_cache=False,
                            labels=ids.where(attention_mask, torch.tensor(IGNORED))).loss
    torch.testing.assert_close(ours, theirs)
