"""Each loss against transformers' hidden states, logits and attention written out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from toy_batches import packed_of, taught_by
from toy_models import FAMILIES, tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.data.masking.corruption import IGNORED
from bmtools.models import mlm
from bmtools.models.packed import prepare_packed
from bmtools.training.loop import compile_layers, set_dropout

WEIGHTS = {"mlm_weight": 2.0, "kl_weight": 5.0, "cosine_weight": 1.0}


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(family: str, seed: int, **changes: Any) -> Any:
    torch.manual_seed(seed)
    model = AutoModelForMaskedLM.from_config(tiny_config(family, **changes),
                                             dtype=torch.float64).eval()
    for weight in model.parameters():  # biases and positions start as 0
        torch.nn.init.normal_(weight, std=0.2)
    return model


@pytest.fixture
def batch() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 60, (5, 12), generator=rng)
    present = torch.arange(12) < torch.tensor([12, 12, 9, 7, 7])[:, None]
    chosen = (torch.rand(ids.shape, generator=rng) < 0.3) & present
    return {"input_ids": ids, "attention_mask": present,
            "labels": ids.where(chosen, torch.tensor(IGNORED))}


def outputs(model: Any, batch: dict[str, Tensor]) -> Any:
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long(),
                 output_hidden_states=True)


def reference(student: Any, teacher: Any, taught_objective: Any, batch: dict[str, Tensor],
              positions: str, temperature: float) -> dict[str, Tensor]:
    learnt = outputs(student, batch)
    with torch.no_grad():
        taught = outputs(teacher, batch)
    masked, present = batch["labels"] != IGNORED, batch["attention_mask"]
    compared = masked if positions == "masked" else present
    own, theirs = learnt.logits[compared], taught.logits[compared]
    p = (theirs / temperature).softmax(-1)
    return {
        "mlm": functional.cross_entropy(learnt.logits[masked], batch["labels"][masked],
                                        reduction="sum"),
        "kl": temperature**2 * (p * (p.log() - (own / temperature).log_softmax(-1))).sum(),
        "cosine": (1 - functional.cosine_similarity(
            taught_objective.projection(learnt.hidden_states[-1][present]),
            taught.hidden_states[-1][present], dim=-1)).sum()}


def trained(module: Any, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return {name: weight.grad for name, weight in module.named_parameters()
            if weight.grad is not None}


@pytest.mark.parametrize(("family", "teacher_family", "positions", "chunk"), [
    *((one, other, "masked", None) for one, other in zip(
        FAMILIES, FAMILIES[1:] + FAMILIES[:1], strict=True)),
    ("BERT", "ModernBERT", "all", None), ("ModernBERT", "BERT", "all", 4),
    ("RoBERTa", "Megatron-BERT", "masked", 3)])
def test_losses_and_gradients_equal_plain_formulas(
        family: str, teacher_family: str, positions: str, chunk: int | None,
        batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Wider teacher, padded and packed sequences, all at once and chunk by chunk."""
    if chunk:
        monkeypatch.setattr(mlm, "_LOGITS_ON_CPU", 60 * chunk)
        monkeypatch.setattr(import_module("bmtools.training.distill"), "_CACHED_ON_CPU", 100)
    student, teacher = make(family, 0), make(teacher_family, 1, hidden_size=48,
                                             num_hidden_layers=4)
    made = taught_by(student, teacher, temperature=3.0, kl_positions=positions, **WEIGHTS)
    expected = reference(student, teacher, made, batch, positions, 3.0)
    weights = {name: term.weight for name, term in made.loss_terms.items()}
    assert weights == {"mlm": 2, "kl": 5, "cosine": 1}
    gradients = trained(made, sum(weights[name] * value for name, value in expected.items()))
    assert {name for name in gradients if "projection" in name} == {
        "projection.weight", "projection.bias"}
    for layout in ("padded", "packed"):
        if layout == "packed":
            prepare_packed(student)
            prepare_packed(teacher)
        found = made(**(batch if layout == "padded" else packed_of(batch)))
        assert found.pop("mlm_accuracy") >= 0
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
        total = sum(weights[name] * value for name, value in found.items())
        torch.testing.assert_close(trained(made, total), gradients, rtol=1e-6, atol=1e-8)
        assert all(weight.grad is None for weight in teacher.parameters())



def test_tables_padded_differently_share_the_vocabulary(batch: dict[str, Tensor]) -> None:
    """Published tables often have more rows than their vocabulary has tokens."""
    student, teacher = make("BERT", 0), make("BERT", 1, vocab_size=64)
    found = taught_by(student, teacher)(**batch)["kl"]
    teacher.resize_token_embeddings(60)
    torch.testing.assert_close(found, taught_by(student, teacher)(**batch)["kl"])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's own, in dynamo
@pytest.mark.parametrize(("family", "how"), [
    ("ModernBERT", "checkpointed"), ("BERT", "compiled"), ("ModernBERT", "both")])
def test_compiled_and_checkpointed_layers_have_equal_results(
        family: str, how: str, batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled or recomputed layers have the same losses and gradients."""
    compile_module = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **options: compile_module(
        module, backend="eager", **options))
    student, teacher = make(family, 0).train(), make("BERT", 1, hidden_size=48)
    set_dropout(student, 0.0)
    made = taught_by(student, teacher, **WEIGHTS)
    expected = made(**batch)
    gradients = trained(made, expected["kl"] + expected["cosine"])
    if how != "compiled":
        enable = getattr(student, "activation_checkpointing_enable", None) \
            or student.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    if how != "checkpointed":
        compile_layers(student)
    found = made(**batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(trained(made, found["kl"] + found["cosine"]), gradients)
