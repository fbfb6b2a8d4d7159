"""L2-SP against the penalty that autograd differentiates; initial weights kept and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.errors import CheckpointError
from bmtools.training.regularization import (
    L2SP,
    copy_initial_weights,
    load_initial_weights,
    save_initial_weights,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def model(model: Any) -> Any:
    """Without dropout, so that two passes agree."""
    return model.eval()


def moved(model: Any) -> dict[str, torch.Tensor]:
    """Keep the start of a model and change its weights."""
    start = copy_initial_weights(model)
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=rng), alpha=0.1)
    return start


def loss(model: Any) -> torch.Tensor:
    ids = torch.arange(5, 25).view(2, 10)
    return model(input_ids=ids, labels=ids).loss


def test_value_and_gradient_are_those_of_the_penalty(model: Any) -> None:
    start = moved(model)
    weights = dict(model.named_parameters())
    penalty = sum(0.7 / 2 * (weight - start[name]).square().sum()
                  for name, weight in weights.items())
    names = [name for name in weights if "pooler" not in name]
    expected = torch.autograd.grad(loss(model) + penalty, [weights[name] for name in names])
    pull = L2SP(model, start, 0.7)
    torch.testing.assert_close(pull.penalty(), penalty.detach())
    loss(model).backward()
    pull.add_gradients()
    for name, gradient in zip(names, expected, strict=True):
        torch.testing.assert_close(weights[name].grad, gradient, rtol=1e-6, atol=1e-6)


def test_at_the_start_nothing_pulls(model: Any) -> None:
    pull = L2SP(model, copy_initial_weights(model), 3.0)
    assert pull.penalty() == 0
    loss(model).backward()
    before = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    pull.add_gradients()
    after = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert all(map(torch.equal, before, after))


def test_gradients_that_are_scaled_get_a_scaled_pull(model: Any) -> None:
    pull = L2SP(model, moved(model), 0.7)
    bias = model.cls.predictions.bias
    bias.grad = torch.zeros_like(bias)
    pull.add_gradients()
    plain = bias.grad.clone()
    bias.grad.zero_()
    pull.add_gradients(scale=1024.0)
    torch.testing.assert_close(bias.grad, plain * 1024)


def test_new_and_frozen_weights_are_left_alone(model: Any) -> None:
    start = moved(model)
    bias, norm = model.cls.predictions.bias, model.cls.predictions.transform.LayerNorm
    start["cls.predictions.bias"] = torch.zeros(3)
    del start["cls.predictions.transform.LayerNorm.bias"]
    pull = L2SP(model, start, 1.0)
    bias.grad, norm.bias.grad = torch.zeros_like(bias), torch.zeros_like(norm.bias)
    pull.add_gradients()
    assert not bias.grad.any() and not norm.bias.grad.any()
    assert norm.weight.grad is None
    assert L2SP(model, {}, 1.0).penalty() == 0


def test_a_tied_weight_counts_once(model: Any) -> None:
    start = copy_initial_weights(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[3, 4] += 2.0
    assert L2SP(model, start, 1.0).penalty().item() == pytest.approx(2.0, rel=1e-5)


def test_anchors_survive_a_restart(model: Any, tmp_path: Path) -> None:
    start = copy_initial_weights(model)
    save_initial_weights(tmp_path / "anchors.safetensors", start)
    moved(model)
    again = load_initial_weights(tmp_path / "anchors.safetensors", model)
    assert again.keys() == start.keys()
    assert all(torch.equal(again[name], start[name]) for name in start)


def test_anchors_of_another_model_are_refused(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "anchors.safetensors"
    with pytest.raises(CheckpointError, match="found no initial weights"):
        load_initial_weights(path, model)
    save_initial_weights(path, {"cls.predictions.bias": torch.zeros(3)})
    with pytest.raises(CheckpointError, match=r"found cls.predictions.bias of shape \(3,\)"):
        load_initial_weights(path, model)
    save_initial_weights(path, {"lm_head.bias": torch.zeros(3)})
    with pytest.raises(CheckpointError, match="expected a weight of the model"):
        load_initial_weights(path, model)
