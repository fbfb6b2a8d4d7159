"""L2-SP and mixout against autograd and the published formula; replay between steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch.func import functional_call
from transformers import ModernBertConfig, ModernBertForMaskedLM

from bmtools.data.batches import Batches, Collator, ScheduledBatches, SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.data.sampler import Sampler
from bmtools.errors import CheckpointError
from bmtools.recipes.phases import Phase, Schedule
from bmtools.recipes.settings import (
    BatchConfig,
    OptimizationConfig,
    RegularizationConfig,
)
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective
from bmtools.training.regularization import (
    Mixout,
    ReplayedBatches,
    copy_initial_weights,
    l2_sp_gradients,
    load_initial_weights,
    mixed_names,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def model(model: Any) -> Any:
    """Without dropout, so that two passes agree."""
    return model.eval()


def moved(model: Any, alpha: float = 0.1) -> dict[str, torch.Tensor]:
    """Copy the weights of a model and change its own."""
    initial = copy_initial_weights(model)
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=rng), alpha=alpha)
    return initial


def test_the_gradient_equals_autograd_of_the_penalty(model: Any) -> None:
    initial = moved(model)
    weights = dict(model.named_parameters())
    penalty = sum(0.7 / 2 * (weight - initial[name]).square().sum()
                  for name, weight in weights.items())
    names = [name for name in weights if "pooler" not in name]
    expected = torch.autograd.grad(loss(model) + penalty, [weights[name] for name in names])
    loss(model).backward()
    l2_sp_gradients(model, initial, 0.7)(1.0)
    for name, gradient in zip(names, expected, strict=True):
        torch.testing.assert_close(weights[name].grad, gradient, rtol=1e-6, atol=1e-6)


def test_new_and_frozen_weights_have_no_penalty(model: Any) -> None:
    initial = moved(model)
    bias, norm = model.cls.predictions.bias, model.cls.predictions.transform.LayerNorm
    initial["cls.predictions.bias"] = torch.zeros(3)
    del initial["cls.predictions.transform.LayerNorm.bias"]
    bias.grad, norm.bias.grad = torch.zeros_like(bias), torch.zeros_like(norm.bias)
    l2_sp_gradients(model, initial, 1.0)(1.0)
    assert not bias.grad.any() and not norm.bias.grad.any()
    assert norm.weight.grad is None


def test_unreadable_initial_weights_are_an_error(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "initial.safetensors"
    for content in (None, b"x" * 20):
        if content:
            path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"initial\.safetensors: .* cannot be read \("):
            load_initial_weights(path, model)


IDS = torch.arange(5, 53).view(4, 12)


@pytest.fixture
def initial(model: Any) -> dict[str, torch.Tensor]:
    """The weights before training moved them."""
    return moved(model, 0.05)


def published(weight: torch.Tensor, target: torch.Tensor, mask: torch.Tensor,
              p: float) -> torch.Tensor:
    """The mixture as its authors compute it: one sample for each input, shared by all outputs."""
    noise = mask.repeat(weight.shape[0], 1)
    return ((1 - noise) * target + noise * weight - p * target) / (1 - p)


def loss(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids, labels=ids).loss


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: weight.grad.clone() for name, weight in model.named_parameters()
             if weight.grad is not None}
    model.zero_grad()
    return found


def mixout_of(model: Any, initial: dict[str, torch.Tensor], p: float, seed: int = 1,
              **settings: Any) -> Mixout:
    return Mixout(model, initial, RegularizationConfig(mixout=p, **settings), seed)


def test_exactly_the_linear_maps_of_the_layers_are_mixed(model: Any) -> None:
    assert mixed_names(model) == [
        f"bert.encoder.layer.{layer}.{name}.weight" for layer in (0, 1)
        for name in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "intermediate.dense", "output.dense")]
    modern = ModernBertForMaskedLM(ModernBertConfig(
        vocab_size=30, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, pad_token_id=0, cls_token_id=2, sep_token_id=3))
    assert [name.split("layers.1.")[1] for name in mixed_names(modern) if "layers.1." in name] == \
        ["attn.Wqkv.weight", "attn.Wo.weight", "mlp.Wi.weight", "mlp.Wo.weight"]


class AuthorsMixture(torch.autograd.Function):
    """The authors' forward pass, and their backward pass, which forgets the 1 / (1 - p)."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, target: torch.Tensor, mask: torch.Tensor,
                p: float) -> torch.Tensor:
        ctx.mask = mask
        return published(weight, target, mask, p)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * ctx.mask, None, None, None


@pytest.mark.parametrize("gradient", ["exact", "unscaled"])
@pytest.mark.parametrize(("p", "scope"), [(0.1, "layers"), (0.9, "layers"), (0.9, "linear")])
def test_values_and_gradients_equal_the_published_formula(
        model: Any, initial: dict, p: float, scope: str, gradient: str) -> None:
    model.double()
    initial = {name: weight.double() for name, weight in initial.items()}
    mixout = mixout_of(model, initial, p, 3, mixout_scope=scope, mixout_gradient=gradient)
    names, masks = mixed_names(model, scope), mixout.masks(7)
    assert 0 < torch.cat(masks).mean() < 1
    weights = {name: weight.detach().clone().requires_grad_()
               for name, weight in model.named_parameters()}
    swapped: dict[str, Any] = dict(weights)
    mixture: Any = published if gradient == "exact" else AuthorsMixture.apply
    for name, mask in zip(names, masks, strict=True):
        swapped[name] = mixture(weights[name], initial[name], mask, p)
    expected = functional_call(model, swapped, kwargs={"input_ids": IDS, "labels": IDS}).loss
    expected.backward()

    with mixout.mixed(7):
        found = loss(model)
        found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(weight.grad, weights[name].grad, rtol=1e-6, atol=1e-6)


@pytest.fixture
def replay(toy: Any, toy_phase: Callable[..., Phase]) -> Callable[..., tuple[Any, Schedule]]:
    """Make batches for 12 steps in phases of 4, 1 and 7 steps, with replayed old text."""

    def make(every: int) -> tuple[Any, Schedule]:
        phases = [toy_phase(name="a", batch=BatchConfig(16, 4)),
                  toy_phase(name="b", batch=BatchConfig(16, 4)),
                  toy_phase(name="c", batch=BatchConfig(32, 2), mask_rate=0.5)]
        schedule = Schedule(phases, [4, 1, 7])
        corpora = {"replay": toy.corpus(
            [f"Il rene filtra {'la bile ' * (n % 9)}." for n in range(50)])}

        def batches(own: Schedule) -> Batches:
            collator = Collator(list(corpora.values()), SpecialTokens.of(toy.tokenizer), False, 0,
                                {"words": make_strategy("words")})
            return ScheduledBatches(Sampler(corpora, own, False, 0), collator)

        own = toy.batches(["Il cuore pompa il sangue."] * 8, *phases)
        return ReplayedBatches(own, every, schedule, batches), schedule

    return make


@pytest.mark.parametrize("every", [1, 3, 5, 20])
def test_replayed_batches_have_the_settings_of_their_phase(
        replay: Callable[..., tuple[Any, Schedule]], every: int) -> None:
    """A resumed session that asks for a later batch first gets the same one."""
    (made, schedule), (resumed, _) = replay(every), replay(every)
    for number in range(12):
        replayed = made.batch(number, 0, 1).replayed
        assert (replayed is not None) == ((number + 1) % every == 0)
        if replayed:
            phase = schedule.phase_step(number).phase
            ids = replayed.micro_batches[0]["input_ids"]
            assert len(ids) == phase.batch.batch_size and ids.shape[1] <= phase.batch.max_length
            if number > 7:
                again = resumed.batch(number, 0, 1).replayed
                assert torch.equal(again.micro_batches[0]["input_ids"], ids)


def test_a_summed_update_has_the_gradients_of_both_batches(
        model: Any,
        replay: Callable[..., tuple[Any, Schedule]]) -> None:
    """Two steps of the loop against torch's optimizer on transformers' own losses."""
    twin, (batches, _) = copy.deepcopy(model), replay(2)
    trainer = Trainer(MaskedObjective(model), 2, lambda _number: 1e-3,
                      OptimizationConfig(weight_decay=0.0, max_grad_norm=0.5),
                      Accelerator(cpu=True))
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.0)
    for number, step in enumerate(trainer.run(batches)):
        batch = batches.batch(number, 0, 1)
        terms = [twin(input_ids=inputs["input_ids"], labels=inputs["labels"],
                      attention_mask=inputs["attention_mask"].long()).loss
                 for one in (batch, batch.replayed) if one for inputs in one.micro_batches]
        assert len(terms) == number + 1
        sum(terms).backward()
        norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        found = [step, *([step.replayed] if step.replayed else [])]
        assert [one.losses["loss"] for one in found] == pytest.approx(
            [term.item() for term in terms], rel=1e-4)
        assert step.figures().gradient_norm == pytest.approx(float(norm), rel=1e-3) and norm > 0.5
    assert batch.replayed is not None and step.replayed is not None
    assert step.replayed.counts == batch.replayed.counts != step.counts
    assert step.replayed.following == batch.replayed.following != step.following
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=2e-5)
