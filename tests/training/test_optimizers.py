"""Optimizers compared with torch's optimizers and with explicit algorithms."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from bmtools.training import optimizers
from bmtools.training.layers import layer_numbers, layerwise_lr_scales
from bmtools.training.optimizers import (
    Muon,
    make_optimizer,
    parameter_groups,
)

pytestmark = pytest.mark.usefixtures("one_thread")



class Beside(nn.Module):
    """A model with another weight, as in an objective."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.projection = nn.Linear(3, 5)


def gradients_of(shapes: list[tuple[int, ...]], steps: int) -> list[list[torch.Tensor]]:
    """Gradients that are sometimes very large, each tensor at a different time."""
    rng = torch.Generator().manual_seed(2)
    return [[torch.randn(shape, generator=rng, dtype=torch.float64)
             * (30.0 if step % 6 == 4 + number % 2 else 1.0) for number, shape in enumerate(shapes)]
            for step in range(steps)]


def run(optimizer: Any, weights: list[nn.Parameter], gradients: list[list[torch.Tensor]]) -> None:
    for step in gradients:
        for weight, gradient in zip(weights, step, strict=True):
            weight.grad = gradient.clone().to(weight.dtype)
        optimizer.step()


def weights_of(shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float64
               ) -> list[nn.Parameter]:
    rng = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=rng, dtype=dtype)) for shape in shapes]


def train(model: Any, optimizer: Any, steps: int) -> None:
    ids = torch.arange(5, 53).view(4, 12)
    for _ in range(steps):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_groups_contain_every_weight_once_by_scale_decay_and_layer(model: Any) -> None:
    objective = Beside(model)
    groups = parameter_groups(objective, 0.1, layerwise_lr_scales(model, 0.5))
    listed = [weight for group in groups for weight in group["params"]]
    assert len(listed) == len({id(weight) for weight in listed})
    assert {id(weight) for weight in listed} == {id(weight) for weight in objective.parameters()}
    found = {id(weight): (group["lr_scale"], group["weight_decay"], group["use_muon"])
             for group in groups for weight in group["params"]}
    for name, depth in layer_numbers(model).items():
        weight = model.get_parameter(name)
        matrix = weight.ndim == 2
        assert found[id(weight)] == (0.5 ** (3 - depth), 0.1 if matrix else 0.0,
                                     matrix and depth in (1, 2))
    assert found[id(objective.projection.weight)] == (1.0, 0.1, False)
    assert len(groups) == 8  # two layers, embeddings and top, each with and without decay
    assert len(parameter_groups(objective, 0.1)) == 3


def newton_schulz_written_out(matrix: torch.Tensor) -> torch.Tensor:
    """Jordan et al. 2024, one matrix, wide side last."""
    if matrix.shape[0] > matrix.shape[1]:
        return newton_schulz_written_out(matrix.T).T
    x = matrix / matrix.norm()
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


@pytest.fixture
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orthogonalise without rounding, on any CPU."""
    monkeypatch.setattr(optimizers, "_newton_dtype", lambda kind: torch.float32)


@pytest.mark.usefixtures("in_float32")
def test_muon_is_the_algorithm_of_its_author() -> None:
    shapes = [(8, 8), (8, 20), (20, 8), (8, 8)]
    ours = weights_of(shapes, torch.float32)
    theirs = [weight.detach().double() for weight in ours]
    gradients = gradients_of(shapes, 20)
    run(Muon([{"params": ours, "weight_decay": 0.1, "use_muon": True}], 0.01), ours, gradients)
    momenta = [torch.zeros_like(weight) for weight in theirs]
    for step in gradients:
        for n, g in enumerate(step):
            momenta[n] = 0.95 * momenta[n] + 0.05 * g
            turned = newton_schulz_written_out(0.05 * g + 0.95 * momenta[n])
            theirs[n] = theirs[n] * (1 - 0.01 * 0.1) \
                - 0.01 * 0.2 * max(theirs[n].shape) ** 0.5 * turned
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.detach().double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_muon_moves_in_the_direction_of_torch() -> None:
    """torch rounds to bfloat16 on the way, so directions agree rather than digits."""
    shapes = [(8, 8), (8, 20), (20, 8)]
    ours, theirs = weights_of(shapes, torch.float32), weights_of(shapes, torch.float32)
    start = [weight.detach().clone() for weight in ours]
    gradients = gradients_of(shapes, 20)
    run(Muon([{"params": ours, "weight_decay": 0.1, "use_muon": True}], 0.01), ours, gradients)
    run(torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        theirs, gradients)
    for mine, other, before in zip(ours, theirs, start, strict=True):
        assert (mine - other).norm() < 0.02 * (other - before).norm()


def test_outside_the_layers_muon_is_adamw(model: Any) -> None:
    twin = copy.deepcopy(model.eval())
    for each, name in ((model, "muon"), (twin, "adamw")):
        train(each, make_optimizer(name, parameter_groups(Beside(each), 0.1), 1e-3), 1)
    depth = layer_numbers(model)
    for name, weight in model.named_parameters():
        inner = weight.ndim == 2 and depth[name] in (1, 2)
        assert torch.equal(weight, twin.get_parameter(name)) != inner
