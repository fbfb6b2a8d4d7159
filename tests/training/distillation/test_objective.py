"""Losses of distillation against formulas written out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from toy_batches import make_batch, taught_by

from bmtools.models.architectures import build_config, build_model


@pytest.fixture
def batch(tokenizer: Any) -> dict[str, torch.Tensor]:
    return make_batch(tokenizer)


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
