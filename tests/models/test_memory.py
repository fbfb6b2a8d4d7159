"""Estimated memory against the tensors of a step that was really taken."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from bmtools.models.architectures import build_config, build_model
from bmtools.models.memory import MemoryTracker, memory_estimate, rows_that_fit
from bmtools.models.mlm import encode, masked_lm_loss
from bmtools.vocab.settings import WordPieceConfig
from bmtools.vocab.wordpiece import learn

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENIZER = learn(["il cuore pompa il sangue"] * 3, WordPieceConfig(size=100))
FAMILIES = ["bert-2x64", "roberta-2x64", "megatron-bert-2x64", "modernbert-4x64"]
ROWS, ROW_TOKENS = 4, 96


def config_of(name: str) -> Any:
    config = build_config(name, TOKENIZER)
    config.vocab_size = 1_500
    return config


def step(model: Any, device: str, precision: str) -> None:
    """Both passes over padded rows with 15 of 100 tokens masked."""
    ids = torch.full((ROWS, ROW_TOKENS), 5, device=device)
    attended = torch.arange(ROW_TOKENS, device=device) < ROW_TOKENS - 3 * \
        torch.arange(ROWS, device=device)[:, None]
    asked = torch.zeros(ROWS * ROW_TOKENS, dtype=torch.bool, device=device)
    asked[:round(0.15 * len(asked))] = True
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        states = encode(model, ids, attended).flatten(0, 1)[asked]
        loss, _ = masked_lm_loss(model, states, ids.flatten()[asked])
    loss.backward()


def ready(config: Any, checkpointing: bool) -> Any:
    model = build_model(config).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if checkpointing:
        model.activation_checkpointing_enable(
            activation_checkpointing_kwargs={"use_reentrant": False})
    return model


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_those_of_a_real_step(name: str, precision: str,
                                              checkpointing: bool) -> None:
    config = config_of(name)
    found = memory_estimate(config, ROWS, ROW_TOKENS, precision=precision,
                            checkpointing=checkpointing)
    model = ready(config, checkpointing)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    with MemoryTracker() as ledger:
        step(model, "cpu", precision)
    assert found.activations == pytest.approx(ledger.most, rel=0.04)


def test_the_ledger_counts_what_lives_at_once() -> None:
    with MemoryTracker() as ledger:
        first = torch.zeros(1_000)
        del first
        second = torch.zeros(500)
        view = second[:10]
        third = second + 1
        assert (len(view), len(third)) == (10, 500)
    assert ledger.most == 4_000


def test_the_ledger_leaves_out_what_was_there() -> None:
    """A layer's weight and gradient, looked at and written into, are nobody's activations."""
    layer = nn.Linear(100, 200, bias=False)
    layer.weight.grad = torch.zeros_like(layer.weight)
    rows = torch.ones(3, 100)
    with MemoryTracker() as ledger:
        layer(rows).sum().backward()
    assert ledger.most == pytest.approx(layer.weight.nbytes, rel=0.05), "a new gradient"


def test_weights_gradients_and_optimizer_are_counted_by_the_weight() -> None:
    config = config_of("bert-2x64")
    weights = sum(weight.numel() for weight in build_model(config).parameters())
    found = memory_estimate(config, 2, 16)
    assert (found.weights, found.gradients, found.optimizer) == (
        4 * weights, 4 * weights, 8 * weights)
    assert found.total == 16 * weights + found.activations
    model = ready(config, checkpointing=False)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, "cpu", "no")
    optimizer.step()
    held = sum(value.nbytes for state in optimizer.state.values() for value in state.values()
               if value.ndim)
    assert found.optimizer == held
    assert memory_estimate(config, 2, 16, optimizer="sgd").optimizer == 0


def test_rows_that_fit_do_and_one_more_in_twenty_does_not() -> None:
    estimate = partial(memory_estimate, config_of("bert-2x64"), max_length=ROW_TOKENS,
                       precision="bf16")
    for megabytes in (40, 200):
        rows = rows_that_fit(estimate, megabytes * 10**6)
        assert rows > 5
        fits, beyond = (estimate(number).total for number in (rows, rows + max(1, rows // 20)))
        assert fits <= megabytes * 10**6 < beyond
    assert rows_that_fit(estimate, 10**6) == 0


def test_a_rehearsal_leaves_the_common_generator_alone() -> None:
    state = torch.get_rng_state()
    memory_estimate(config_of("modernbert-4x64"), 2, 16)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_large_model_is_rehearsed_without_its_memory() -> None:
    found = memory_estimate(build_config("megatron-bert-1.2b", TOKENIZER), 64, 512,
                            precision="bf16", checkpointing=True)
    assert found.weights == pytest.approx(4 * 1.14e9, rel=0.01)
    assert found.activations > 2 * 40 * 64 * 512 * 1536, "each layer keeps its input"


@pytest.mark.parametrize(("setting", "message"), [
    ({"optimizer": "lion"}, "--optimizer: found 'lion'"),
    ({"precision": "fp8"}, "--precision: found 'fp8'")])
def test_an_unknown_setting_is_named(setting: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memory_estimate(config_of("bert-2x64"), 2, 16, **setting)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_gpu_takes_about_as_much(name: str, precision: str) -> None:
    """Kernels differ from a CPU's, and blocks are rounded up: a fifth either way."""
    config = config_of(name.replace("x64", "x256"))
    model = ready(config, checkpointing=False).to("cuda")
    step(model, "cuda", precision)  # makes gradients and workspaces
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(model, "cuda", precision)
    taken = torch.cuda.max_memory_allocated() - before
    found = memory_estimate(config, ROWS, ROW_TOKENS, precision=precision)
    assert found.activations == pytest.approx(taken, rel=0.2)
