"""Optimizers, against torch's own and against algorithms written out."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import nn

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import read_manifest
from bmtools.recipes.settings import FreezeConfig
from bmtools.training import optimizers
from bmtools.training.layers import freeze, frozen_names, layer_numbers, layerwise_lr_scales
from bmtools.training.optimizers import (
    Muon,
    StableAdamW,
    averaged_weights,
    make_optimizer,
    orthogonalise,
    parameter_groups,
    update_averages,
)
from bmtools.training.pretrain import pretrain

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("adamw", "stable-adamw", "muon")


class Beside(nn.Module):
    """A model with a weight beside it, as an objective holds them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.projection = nn.Linear(3, 5)


def gradients_of(shapes: list[tuple[int, ...]], steps: int) -> list[list[torch.Tensor]]:
    """Gradients that burst now and then, each tensor at its own time."""
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


@pytest.mark.parametrize("name", NAMES)
def test_frozen_weights_are_trained_by_a_later_phase(model: Any, name: str) -> None:
    optimizer = make_optimizer(name, parameter_groups(Beside(model), 0.1), 1e-3)
    frozen = frozen_names(model, FreezeConfig(1))
    changed = freeze(model, frozen)
    before = {key: weight.clone() for key, weight in model.named_parameters()}
    train(model, optimizer, 2)
    for key, weight in model.named_parameters():
        assert torch.equal(weight, before[key]) == (key in frozen)
    for weight in changed:
        weight.requires_grad_(True)
    train(model, optimizer, 1)
    assert not any(torch.equal(weight, before[key]) for key, weight in model.named_parameters())


def stable_adamw_written_out(weights: list[torch.Tensor], gradients: list[list[torch.Tensor]],
                             rate: float, decay: float) -> list[list[float]]:
    """Wortsman et al. 2023, algorithm 2, tensor by tensor; returns RMS by step and tensor."""
    adam_beta1, adam_beta2, epsilon = 0.9, 0.99, 1e-6
    first = [torch.zeros_like(weight) for weight in weights]
    second = [torch.zeros_like(weight) for weight in weights]
    sizes = []
    for t, step in enumerate(gradients, start=1):
        hat1 = adam_beta1 * (1 - adam_beta1 ** (t - 1)) / (1 - adam_beta1**t)
        hat2 = adam_beta2 * (1 - adam_beta2 ** (t - 1)) / (1 - adam_beta2**t)
        sizes.append([])
        for n, g in enumerate(step):
            first[n] = hat1 * first[n] + (1 - hat1) * g
            second[n] = hat2 * second[n] + (1 - hat2) * g**2
            rms = torch.sqrt(torch.mean(g**2 / torch.maximum(
                second[n], torch.tensor(epsilon**2, dtype=g.dtype)))).item()
            eta = rate / max(1.0, rms)
            weights[n] = weights[n] - eta * decay * weights[n] \
                - eta * first[n] / (torch.sqrt(second[n]) + epsilon)
            sizes[-1].append(rms)
    return sizes


def test_stable_adamw_is_the_algorithm_of_its_paper() -> None:
    shapes = [(7, 5), (5,), (3, 4)]
    ours, gradients = weights_of(shapes), gradients_of(shapes, 20)
    for step in gradients:
        step[2] *= 1e-6  # as small as epsilon
    theirs = [weight.detach().clone() for weight in ours]
    run(StableAdamW([{"params": ours, "weight_decay": 0.1}], 0.01, (0.9, 0.99), 1e-6), ours,
        gradients)
    sizes = stable_adamw_written_out(theirs, gradients, 0.01, 0.1)
    assert all(max(column) > 2 and min(column) < 0.99 for column in zip(*sizes, strict=True))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.detach(), other, rtol=1e-6, atol=1e-8)


def test_rows_without_gradients_do_not_clip_a_tensor() -> None:
    """Rows of an embedding that a batch does not hold."""
    [weight] = weights_of([(6, 4)])
    before = weight.detach().clone()
    gradient = torch.zeros(6, 4, dtype=torch.float64)
    gradient[2] = 1.0
    run(StableAdamW([{"params": [weight], "weight_decay": 0.0}], 0.01), [weight], [[gradient]] * 3)
    assert torch.equal(weight[0], before[0])
    torch.testing.assert_close(weight[2].detach(), before[2] - 0.03, rtol=1e-5, atol=1e-6)


def test_without_clipping_stable_adamw_is_adamw() -> None:
    shapes = [(7, 5), (5,)]
    ours, theirs = weights_of(shapes), weights_of(shapes)
    falling = [[gradient * 0.8**n for gradient in gradients_of(shapes, 1)[0]] for n in range(20)]
    run(StableAdamW([{"params": ours, "weight_decay": 0.1}], 0.01), ours, falling)
    run(torch.optim.AdamW(theirs, lr=0.01, eps=1e-6, weight_decay=0.1), theirs, falling)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


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
    """Leave rounding out of the matrices' turning, whatever this processor multiplies fast."""
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
def test_muon_takes_the_direction_of_torch_s() -> None:
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_orthogonalised_matrices_have_singular_values_near_1(
        dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "_newton_dtype", lambda kind: dtype)
    matrices = torch.randn(3, 12, 30, generator=torch.Generator().manual_seed(0))
    found = orthogonalise(matrices).float()
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    assert torch.linalg.svdvals(found).sub(1).abs().max() < 0.35
    assert nn.functional.cosine_similarity(found.flatten(1), (u @ v).flatten(1)).min() > 0.97
    torch.testing.assert_close(orthogonalise(matrices.mT).float(), found.mT)


def test_outside_the_layers_muon_is_adamw(model: Any) -> None:
    twin = copy.deepcopy(model.eval())
    for each, name in ((model, "muon"), (twin, "adamw")):
        train(each, make_optimizer(name, parameter_groups(Beside(each), 0.1), 1e-3), 1)
    depth = layer_numbers(model)
    for name, weight in model.named_parameters():
        inner = weight.ndim == 2 and depth[name] in (1, 2)
        assert torch.equal(weight, twin.get_parameter(name)) != inner


def test_muon_needs_layers() -> None:
    linear = Beside(nn.Linear(2, 2))
    with pytest.raises(CheckpointError, match="optimizer muon: the model has no layers"):
        make_optimizer("muon", parameter_groups(linear, 0.1), 1e-3)
    assert make_optimizer("adamw", parameter_groups(linear, 0.1), 1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_states_can_be_saved_and_restored(model: Any, name: str) -> None:
    """As a state does: by weight and by name, the groups made anew."""
    model.eval()
    optimizer = Accelerator(cpu=True).prepare(
        make_optimizer(name, parameter_groups(Beside(model), 0.1), 1e-3))
    train(model, optimizer, 2)
    twin = copy.deepcopy(model)
    memory = {key: {entry: value.clone() for entry, value in optimizer.state[weight].items()}
              for key, weight in model.named_parameters() if weight in optimizer.state}
    entries = {frozenset(state) for state in memory.values()}
    adamw = frozenset({"step", "exp_avg", "exp_avg_sq"})
    assert entries == ({adamw, frozenset({"momentum_buffer"})} if name == "muon" else {adamw})
    again = make_optimizer(name, parameter_groups(Beside(twin), 0.1), 1e-3)
    for key, state in memory.items():
        again.state[twin.get_parameter(key)] = state
    train(model, optimizer, 3)
    train(twin, again, 3)
    for key, weight in model.named_parameters():
        assert torch.equal(weight, twin.get_parameter(key))


@pytest.mark.parametrize("name", NAMES)
def test_each_optimizer_learns(model: Any, name: str) -> None:
    ids = torch.arange(5, 53).view(4, 12)
    model.eval()
    before = model(input_ids=ids, labels=ids).loss.item()
    train(model, make_optimizer(name, parameter_groups(Beside(model), 0.01), 3e-3), 15)
    assert model(input_ids=ids, labels=ids).loss.item() < before - 1


SETTINGS: dict[str, Any] = {"max_length": 24, "batch_size": 8, "learning_rate": 3e-3, "steps": 6,
                            "warmup_ratio": 0.0, "mixed_precision": "no"}


def average(weights: list[torch.Tensor], decay: float) -> torch.Tensor:
    """Average the weights after each step one after the other, in float64."""
    found = weights[0].double()
    for step, weight in enumerate(weights):
        kept = min(decay, (1 + step) / (10 + step))
        found = kept * found + (1 - kept) * weight.double()
    return found


@pytest.mark.parametrize("optimizer", ["adamw", "stable-adamw"])
def test_averages_are_those_of_a_loop(optimizer: str) -> None:
    torch.manual_seed(0)
    trained, late = (torch.nn.Parameter(torch.randn(3, 2)) for _ in range(2))
    made = make_optimizer(optimizer, [{"params": [trained, late], "weight_decay": 0.1,
                                       "lr_scale": 1.0, "use_muon": False}], 0.1)
    seen: list[torch.Tensor] = []
    for step in range(30):
        trained.grad = torch.randn(3, 2)
        late.grad = torch.randn(3, 2) if step > 20 else None  # frozen before
        made.step()
        update_averages(made, 0.6, step)
        seen.append(trained.detach().clone())
    assert set(made.state) == {trained, late}
    with averaged_weights(made):
        torch.testing.assert_close(trained.detach().double(), average(seen, 0.6), atol=1e-6,
                                   rtol=0)
    assert torch.equal(trained.detach(), seen[-1]), "weights come back to the bit"


def test_a_first_update_that_was_skipped_has_no_average() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    update_averages(optimizer, 0.6, 0)
    assert not optimizer.state


def test_a_run_writes_and_scores_its_average(corpus: Path, vocabulary: Path,
                                             tmp_path: Path) -> None:
    start = {"architecture": "bert-1x64", "tokenizer": vocabulary}
    pretrain(corpus, tmp_path / "plain", **start, **SETTINGS, keep_steps=1)
    done = pretrain(corpus, tmp_path / "averaged", **start, **SETTINGS, evaluate=corpus, ema=0.3,
                    keep_steps=4)
    steps = [load_file(path / "model.safetensors")
             for path in sorted((tmp_path / "plain.kept").iterdir())]
    for directory, count in (("averaged", 6), ("averaged.kept/step-00000004", 4)):
        found = load_file(tmp_path / directory / "model.safetensors")
        assert not torch.equal(found["cls.predictions.transform.dense.weight"],
                               steps[count - 1]["cls.predictions.transform.dense.weight"])
        for name, weight in found.items():
            expected = average([step[name] for step in steps[:count]], 0.3)
            torch.testing.assert_close(weight.double(), expected, atol=1e-6, rtol=0)
    assert read_manifest(tmp_path / "averaged")["settings"]["ema"] == 0.3
    again = pretrain(corpus, tmp_path / "again", model=tmp_path / "averaged", retain=corpus,
                     **{**SETTINGS, "steps": 1})
    assert done["evaluate"]["evaluate"]["loss"] == again["retained"]["before"]["loss"]
