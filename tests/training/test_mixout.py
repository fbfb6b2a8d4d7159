"""Mixout, against the published formula written out and differentiated by autograd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel
from transformers import ModernBertConfig, ModernBertForMaskedLM

from bmtools.errors import CheckpointError
from bmtools.training.regularization import (
    Mixout,
    copy_initial_weights,
    load_initial_weights,
    mix,
    mixed_names,
    save_initial_weights,
)

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = torch.arange(5, 53).view(4, 12)


@pytest.fixture
def model(model: Any) -> Any:
    """Without dropout, which would hide what mixout does."""
    return model.eval()


@pytest.fixture
def start(model: Any) -> dict[str, torch.Tensor]:
    """The weights before training moved them."""
    found = copy_initial_weights(model)
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=rng), alpha=0.05)
    return found


def published(weight: torch.Tensor, target: torch.Tensor, mask: torch.Tensor,
              p: float) -> torch.Tensor:
    """The mixture as its authors compute it: one draw for each input, for all outputs alike."""
    noise = mask.repeat(weight.shape[0], 1)
    return ((1 - noise) * target + noise * weight - p * target) / (1 - p)


def loss(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids, labels=ids).loss


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: weight.grad.clone() for name, weight in model.named_parameters()
             if weight.grad is not None}
    model.zero_grad()
    return found


def mixed_gradients(model: Any, mixout: Mixout, number: int = 0) -> dict[str, torch.Tensor]:
    with mixout.mixed(number):
        loss(model).backward()
    return gradients(model)


def recompute_activations(model: Any) -> None:
    """Under the name that this transformers gives it."""
    name = "activation_checkpointing_enable"
    if not hasattr(model, name):
        name = "gradient_checkpointing_enable"
    getattr(model, name)({"use_reentrant": False})
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def test_every_linear_map_of_the_layers_is_mixed_and_nothing_else(model: Any) -> None:
    assert mixed_names(model) == [
        f"bert.encoder.layer.{layer}.{name}.weight" for layer in (0, 1)
        for name in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "intermediate.dense", "output.dense")]
    modern = ModernBertForMaskedLM(ModernBertConfig(
        vocab_size=30, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, pad_token_id=0, cls_token_id=2, sep_token_id=3))
    assert [name.split("layers.1.")[1] for name in mixed_names(modern) if "layers.1." in name] == \
        ["attn.Wqkv.weight", "attn.Wo.weight", "mlp.Wi.weight", "mlp.Wo.weight"]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_values_and_gradients_are_those_of_the_published_formula(
        model: Any, start: dict, p: float) -> None:
    model.double()
    start = {name: anchor.double() for name, anchor in start.items()}
    mixout = Mixout(model, start, p, seed=3)
    names = mixed_names(model)
    masks = [(scale > 0).double() for scale in mixout.scales(7)]
    assert 0 < torch.cat(masks).mean() < 1
    weights = {name: weight.detach().clone().requires_grad_()
               for name, weight in model.named_parameters()}
    swapped = dict(weights)
    for name, mask in zip(names, masks, strict=True):
        swapped[name] = published(weights[name], start[name], mask, p)
    expected = functional_call(model, swapped, kwargs={"input_ids": IDS, "labels": IDS}).loss
    expected.backward()

    with mixout.mixed(7):
        found = loss(model)
        found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(weight.grad, weights[name].grad, rtol=1e-6, atol=1e-6)


def test_one_map_by_hand() -> None:
    weight, anchor = torch.tensor([[2.0, 2.0], [4.0, 4.0]]), torch.ones(2, 2)
    found = mix(weight, anchor, torch.tensor([4.0, 0.0]))  # p = 0.75, the second input dropped
    assert found.tolist() == [[1 + 4 * 1, 1], [1 + 4 * 3, 1]]
    torch.testing.assert_close(found, published(weight, anchor, torch.tensor([1.0, 0.0]), 0.75))


def test_probability_0_changes_no_bit(model: Any, start: dict) -> None:
    loss(model).backward()
    plain = gradients(model)
    found = mixed_gradients(model, Mixout(model, start, 0.0, seed=0))
    assert all(torch.equal(found[name], plain[name]) for name in plain)


def test_probability_1_is_the_start_and_teaches_nothing(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 1.0, seed=0)
    with mixout.mixed(0):
        weights = dict(model.named_parameters())
        assert all(torch.equal(weights[name], start[name]) for name in mixed_names(model))
        loss(model).backward()
    found = gradients(model)
    assert not any(found[name].any() for name in mixed_names(model))
    assert found["bert.encoder.layer.0.output.dense.bias"].any()


def test_the_mean_mixture_is_the_weight(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 0.6, seed=1)
    draws = torch.stack([torch.cat(mixout.scales(number)) for number in range(3000)])
    # A scale is 0 or 2.5: mean 1, deviation 1.22; the mean over steps strays by 0.022.
    assert draws.unique().tolist() == [0, pytest.approx(2.5)]
    assert draws.mean(0).sub(1).abs().max() < 5 * 0.0224
    assert draws.mean() == pytest.approx(1, abs=0.002)


def test_steps_differ_and_repeat(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 0.5, seed=1)
    first = mixed_gradients(model, mixout, 4)
    torch.rand(3)
    again, other = mixed_gradients(model, mixout, 4), mixed_gradients(model, mixout, 5)
    name = "bert.encoder.layer.1.output.dense.weight"
    assert torch.equal(first[name], again[name]) and not torch.equal(first[name], other[name])
    seeded = mixed_gradients(model, Mixout(model, start, 0.5, seed=2), 4)
    assert not torch.equal(first[name], seeded[name])


def test_weights_and_their_names_come_back(model: Any, start: dict) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    places = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    mixout = Mixout(model, start, 0.5, seed=1)
    mixed_gradients(model, mixout)
    with pytest.raises(RuntimeError, match="interrupted"), mixout.mixed(1):
        assert model.state_dict().keys() == before.keys()
        raise RuntimeError("interrupted")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert {name: weight.data_ptr() for name, weight in model.named_parameters()} == places
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_pieces_of_a_batch_add_up_to_it(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 0.5, seed=1)
    whole = mixed_gradients(model, mixout)
    with mixout.mixed(0):
        for piece in IDS.chunk(2):
            (loss(model, piece) / 2).backward()
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-6)


def test_recomputed_activations_meet_the_same_mixture(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 0.5, seed=1)
    plain = mixed_gradients(model, mixout)
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    recompute_activations(model)
    for name, gradient in mixed_gradients(model, mixout).items():
        assert torch.equal(gradient, plain[name])


def test_bfloat16_computes_with_the_mixture(model: Any, start: dict) -> None:
    mixout = Mixout(model, start, 0.5, seed=1)
    full = mixed_gradients(model, mixout)
    loss(model).backward()
    unmixed = gradients(model)
    with mixout.mixed(0), torch.autocast("cpu", torch.bfloat16):
        loss(model).backward()
    found = gradients(model)
    name = "bert.encoder.layer.1.output.dense.weight"
    assert (found[name] - full[name]).norm() < 0.05 * full[name].norm()
    assert (found[name] - unmixed[name]).norm() > 0.5 * unmixed[name].norm()


def test_wrapped_for_many_processes_it_is_the_same(model: Any, start: dict,
                                                   tmp_path: Path) -> None:
    mixout = Mixout(model, start, 0.5, seed=1)
    alone = mixed_gradients(model, mixout)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model)
        with mixout.mixed(0):
            wrapped(input_ids=IDS, labels=IDS).loss.backward()
        for name, gradient in gradients(model).items():
            torch.testing.assert_close(gradient, alone[name])
    finally:
        torch.distributed.destroy_process_group()


def test_a_resumed_run_mixes_with_the_same_start(model: Any, start: dict, tmp_path: Path) -> None:
    held = {name: start[name] for name in mixed_names(model)}
    expected = mixed_gradients(model, Mixout(model, held, 0.5, seed=1), 9)
    save_initial_weights(tmp_path / "anchors.safetensors", held)
    again = load_initial_weights(tmp_path / "anchors.safetensors", model)
    found = mixed_gradients(model, Mixout(model, again, 0.5, seed=1), 9)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert held.keys() < copy_initial_weights(model).keys()


def test_a_matrix_without_its_start_is_refused(model: Any, start: dict) -> None:
    del start["bert.encoder.layer.1.output.dense.weight"]
    with pytest.raises(CheckpointError, match="found no initial weight"):
        Mixout(model, start, 0.5, seed=1)
