"""Students and teachers of all families: a step of each pair in both layouts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from toy_batches import make_batch, packed_of, taught_by

from bmtools.models.architectures import build_config, build_model
from bmtools.models.packed import prepare_packed

FAMILIES = ("bert", "roberta", "megatron-bert", "modernbert")


@pytest.mark.parametrize(("student", "teacher"), [*product(FAMILIES, FAMILIES)])
def test_a_step_is_the_same_padded_and_packed(student: str, teacher: str, tokenizer: Any) -> None:
    torch.manual_seed(0)
    own, theirs = (build_model(build_config(f"{family}-{size}", tokenizer)).eval()
                   for family, size in ((student, "1x64"), (teacher, "2x128")))
    objective = taught_by(own, theirs)
    batch = make_batch(tokenizer)
    steps = []
    for _ in range(2):
        sums = objective(**batch)
        objective.zero_grad()
        sum(sums[name] for name in objective.loss_terms).backward()
        steps.append((sums, {name: weight.grad.clone() for name, weight
                             in objective.named_parameters() if weight.grad is not None}))
        for one in (own, theirs):
            prepare_packed(one)
        batch = packed_of(make_batch(tokenizer))
    torch.testing.assert_close(*steps, rtol=1e-3, atol=1e-4)
    assert all(weight.grad is None for weight in theirs.parameters())
    moved = {name for name, gradient in steps[0][1].items() if gradient.any()}
    assert {"projection.weight", "hidden_projection.weight"} <= moved
    assert any("layer" in name for name in moved)
