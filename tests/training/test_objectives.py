"""Losses compared with transformers and with explicit formulas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from toy_batches import make_batch, packed_of, taught_by
from toy_models import FAMILIES, join_nsp_head, tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.data.masking.corruption import IGNORED
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.recipes.settings import PretrainingConfig
from bmtools.training.objectives import (
    AdversarialObjective,
    CausalObjective,
    MaskedObjective,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def batch(tokenizer: Any) -> dict[str, torch.Tensor]:
    return make_batch(tokenizer)


@pytest.mark.parametrize("kind", [MaskedObjective, CausalObjective])
def test_packed_losses_equal_padded_losses(model: Any, batch: dict, kind: type) -> None:
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
def test_prepared_inputs_do_not_change_losses(
        model: Any, batch: dict, task: str, packed: bool, padded: bool) -> None:
    """Padding is not scored or counted."""
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


def test_masked_loss_equals_transformers(model: Any, batch: dict) -> None:
    masked = int((batch["labels"] != IGNORED).sum())
    ours = MaskedObjective(model.eval())(**batch)["mlm"] / masked
    theirs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long(),
                   labels=batch["labels"]).loss
    torch.testing.assert_close(ours, theirs)


def test_causal_loss_equals_a_decoder(model: Any, batch: dict) -> None:
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


# Adversarial training, against a twin that runs one sequence at a time, with plain loops

SETTINGS = PretrainingConfig(adversarial=10.0)
STRONG = PretrainingConfig(adversarial=1.0, adversarial_noise=0.02, adversarial_step=0.05)


def build(family: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(tiny_config(
        family, num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


@pytest.fixture
def short_batch() -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 60, (4, 12), generator=rng)
    attention_mask = torch.arange(12) < torch.tensor([12, 9, 12, 5])[:, None]
    masked = (torch.rand(ids.shape, generator=rng) < 0.4) & attention_mask
    return {"input_ids": ids.where(attention_mask, torch.tensor(1)),
            "attention_mask": attention_mask,
            "labels": ids.where(masked, torch.tensor(IGNORED))}


def sequence_logits(model: Any, ids: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Logits of a whole row without padding, through embeddings instead of ids."""
    embedded = model.get_input_embeddings()(ids)[None] + offset
    return model(inputs_embeds=embedded).logits[0].log_softmax(-1)


def kl(given: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return sum((p.exp() * (p - q)).sum() for p, q in zip(given, found, strict=True))


def climbed(row: torch.Tensor, slope: torch.Tensor, settings: PretrainingConfig) -> torch.Tensor:
    """One step for each token of a row, in loops."""
    found = []
    for offset, uphill in zip(row, slope, strict=True):
        offset = offset + settings.adversarial_step * uphill / uphill.abs().max()
        found.append(torch.stack([value.clamp(-settings.adversarial_step,
                                              settings.adversarial_step) for value in offset]))
    return torch.stack(found)


def twin(model: Any, short_batch: dict, settings: PretrainingConfig, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    noise = torch.randn(*short_batch["input_ids"].shape, 32, dtype=torch.float64)
    sums: dict[str, Any] = {"mlm": 0.0, "adversarial": 0.0}
    names = ("input_ids", "attention_mask", "labels")
    for ids, attention_mask, labels, drawn in zip(*(short_batch[name] for name in names), noise,
                                                  strict=True):
        length = int(attention_mask.sum())
        ids, labels = ids[:length], labels[:length]
        masked = labels != IGNORED
        clean = sequence_logits(model, ids, torch.zeros(length, 32, dtype=torch.float64))[masked]
        offset = drawn[:length] * settings.adversarial_noise
        offset = offset.detach().requires_grad_()
        [slope] = torch.autograd.grad(
            kl(clean.detach(), sequence_logits(model, ids, offset)[masked]), offset)
        offset = climbed(offset.detach(), slope, settings)
        moved = sequence_logits(model, ids, offset)[masked]
        sums["mlm"] -= sum(row[label] for row, label in zip(clean, labels[masked], strict=True))
        sums["adversarial"] += kl(clean.detach(), moved) + kl(moved.detach(), clean)
    return sums


@pytest.mark.parametrize("family", FAMILIES)
def test_terms_and_gradients_equal_the_twin(family: str, short_batch: dict) -> None:
    model = build(family).double()
    other = copy.deepcopy(model)
    torch.manual_seed(8)
    found = AdversarialObjective(model, STRONG).train()(**short_batch)
    expected = twin(other, short_batch, STRONG, seed=8)
    assert expected["adversarial"] > 0.01
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-8)
        found[name].backward(retain_graph=True)
        value.backward(retain_graph=True)
        for (weight, mine), theirs in zip(model.named_parameters(), other.parameters(),
                                          strict=True):
            if theirs.grad is not None:
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-8,
                                           msg=lambda text, weight=weight: f"{weight}: {text}")
        model.zero_grad()
        other.zero_grad()


def test_outside_of_training_there_is_no_perturbation(short_batch: dict) -> None:
    objective = AdversarialObjective(build("BERT"), SETTINGS)
    assert {name: (part.weight, part.per) for name, part in objective.loss_terms.items()} == {
        "mlm": (1.0, "masked"), "adversarial": (10.0, "masked")}
    objective.model.eval()
    with torch.inference_mode():
        found = objective(**short_batch)
    assert found["adversarial"] == 0 and found["mlm"] > 0


@pytest.mark.parametrize("family", ["BERT", "RoBERTa", "ModernBERT", "Megatron-BERT"])
def test_packed_adversarial_losses_equal_padded_losses(family: str, short_batch: dict) -> None:
    model = build(family)
    padded_batch = {"input_ids": short_batch["input_ids"].clamp(min=5),
                    "attention_mask": torch.ones_like(short_batch["attention_mask"]),
                    "labels": short_batch["labels"]}
    prepare_packed(model)
    objective = AdversarialObjective(model, STRONG)
    torch.manual_seed(4)
    padded = objective(**padded_batch)
    torch.manual_seed(4)
    packed = objective(padded_batch["input_ids"].flatten(), padded_batch["labels"].flatten(),
                       lengths=torch.full((4,), 12))
    for name, value in padded.items():
        torch.testing.assert_close(packed[name], value, rtol=1e-3, atol=1e-3)
