"""Losses of distillation against formulas written out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import functional
from toy_batches import make_batch, packed_of, taught_by

from bmtools.data.masking.corruption import IGNORED
from bmtools.models import mlm
from bmtools.models.architectures import build_config, build_model
from bmtools.models.packed import prepare_packed


@pytest.fixture
def batch(tokenizer: Any) -> dict[str, torch.Tensor]:
    return make_batch(tokenizer)


@pytest.mark.parametrize(("student", "positions"), [("bert-1x64", "masked"),
                                                    ("bert-1x128", "masked"), ("bert-1x64", "all")])
@torch.no_grad()
def test_distillation_terms_are_those_of_the_paper(
        model: Any, tokenizer: Any, batch: dict, student: str, positions: Any) -> None:
    torch.manual_seed(1)
    teacher, pupil = model.eval(), build_model(build_config(student, tokenizer)).eval()
    objective = taught_by(pupil, teacher, kl_positions=positions)
    assert isinstance(objective.projection, torch.nn.Identity) == (student == "bert-1x64")
    given = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"].long(),
             "output_hidden_states": True}
    taught, learnt = teacher(**given), pupil(**given)
    masked, attention_mask = batch["labels"] != IGNORED, batch["attention_mask"]
    compared = masked if positions == "masked" else attention_mask
    p = functional.softmax(taught.logits[compared] / 2, dim=-1)
    q = functional.softmax(learnt.logits[compared] / 2, dim=-1)
    expected = {
        "mlm": functional.cross_entropy(learnt.logits[masked], batch["labels"][masked],
                                        reduction="sum"),
        "kl": 4 * (p * (p.log() - q.log())).sum(),
        "cosine": (1 - functional.cosine_similarity(
            objective.projection(learnt.hidden_states[-1][attention_mask]),
            taught.hidden_states[-1][attention_mask], dim=-1)).sum(),
    }
    found = objective(**batch)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4)
    assert [objective.loss_terms[name].weight for name in ("mlm", "kl", "cosine")] == [
        5.0, 2.0, 1.0]
    assert objective.loss_terms["kl"].per == {"masked": "masked", "all": "tokens"}[positions]
    assert found["mlm_accuracy"] == (learnt.logits.argmax(-1) == batch["labels"])[masked].sum()


@torch.no_grad()
def test_packed_predictions_are_compared_at_all_tokens_too(
        model: Any, tokenizer: Any, batch: dict) -> None:
    torch.manual_seed(1)
    teacher, pupil = model.eval(), build_model(build_config("bert-1x64", tokenizer)).eval()
    objective = taught_by(pupil, teacher, kl_positions="all")
    expected = objective(**batch)
    for one in (teacher, pupil):
        prepare_packed(one)
    found = objective(**packed_of(batch))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4)


def test_rows_for_tensor_cores_change_no_distillation(
        model: Any, batch: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of added rows, which are -inf, are left out of the divergence."""
    teacher = copy.deepcopy(model)
    torch.nn.init.normal_(teacher.bert.embeddings.word_embeddings.weight, std=0.1)
    objective = taught_by(model.eval(), teacher.eval())
    expected = objective(**batch)
    sum(expected.values()).backward()
    theirs = {name: weight.grad.clone() for name, weight in model.named_parameters()
              if weight.grad is not None}
    model.zero_grad()
    monkeypatch.setattr(mlm, "_row_multiple", lambda _device: 64)
    found = objective(**batch)
    sum(found.values()).backward()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6)
    for name, weight in model.named_parameters():
        if name in theirs:
            torch.testing.assert_close(weight.grad, theirs[name], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_student_that_is_its_teacher_has_nothing_to_learn(model: Any, batch: dict) -> None:
    found = taught_by(model.eval(), model)(**batch)
    assert found["kl"].item() == pytest.approx(0, abs=1e-4)
    assert found["cosine"].item() == pytest.approx(0, abs=1e-4)


def test_the_teacher_is_not_trained(model: Any, tokenizer: Any, batch: dict) -> None:
    pupil = build_model(build_config("bert-1x64", tokenizer))
    objective = taught_by(pupil, model)
    optimizer = torch.optim.SGD(objective.parameters(), lr=1.0)
    before = copy.deepcopy(model.state_dict())
    sum(objective(**batch)[name] for name in objective.loss_terms).backward()
    optimizer.step()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert {id(p) for p in objective.parameters()} == {id(p) for p in pupil.parameters()}
