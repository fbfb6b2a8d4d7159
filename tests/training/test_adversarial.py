"""Adversarial training against a twin that runs one sequence at a time, with plain loops."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from toy_models import FAMILIES, tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.data.masking.corruption import IGNORED
from bmtools.models.packed import prepare_packed
from bmtools.recipes.settings import PretrainingConfig
from bmtools.training.adversarial import AdversarialObjective

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS = PretrainingConfig(adversarial=10.0)
STRONG = PretrainingConfig(adversarial=1.0, adversarial_noise=0.02, adversarial_step=0.05)


def build(family: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(tiny_config(
        family, num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
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


def twin(model: Any, batch: dict, settings: PretrainingConfig, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    noise = torch.randn(*batch["input_ids"].shape, 32, dtype=torch.float64)
    sums: dict[str, Any] = {"mlm": 0.0, "adversarial": 0.0}
    for ids, attention_mask, labels, drawn in zip(batch["input_ids"], batch["attention_mask"],
                                                  batch["labels"],
                                                  noise, strict=True):
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
def test_terms_and_gradients_are_those_of_the_twin(family: str, batch: dict) -> None:
    model = build(family).double()
    other = copy.deepcopy(model)
    torch.manual_seed(8)
    found = AdversarialObjective(model, STRONG).train()(**batch)
    expected = twin(other, batch, STRONG, seed=8)
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


def test_outside_of_training_there_is_no_perturbation(batch: dict) -> None:
    objective = AdversarialObjective(build("BERT"), SETTINGS)
    assert {name: (part.weight, part.per) for name, part in objective.loss_terms.items()} == {
        "mlm": (1.0, "masked"), "adversarial": (10.0, "masked")}
    objective.model.eval()
    with torch.inference_mode():
        found = objective(**batch)
    assert found["adversarial"] == 0 and found["mlm"] > 0


@pytest.mark.parametrize("family", ["BERT", "RoBERTa", "ModernBERT", "Megatron-BERT"])
def test_packed_documents_give_the_losses_of_padded_ones(family: str, batch: dict) -> None:
    model = build(family)
    padded_batch = {"input_ids": batch["input_ids"].clamp(min=5),
                    "attention_mask": torch.ones_like(batch["attention_mask"]),
                    "labels": batch["labels"]}
    prepare_packed(model)
    objective = AdversarialObjective(model, STRONG)
    torch.manual_seed(4)
    padded = objective(**padded_batch)
    torch.manual_seed(4)
    packed = objective(padded_batch["input_ids"].flatten(), padded_batch["labels"].flatten(),
                       lengths=torch.full((4,), 12))
    for name, value in padded.items():
        torch.testing.assert_close(packed[name], value, rtol=1e-3, atol=1e-3)
