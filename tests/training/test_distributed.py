"""Accelerators of one process and of several."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import PartialState

from bmtools.errors import BmtoolsError
from bmtools.models.precision import PrecisionChoice
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import OptimizationConfig, PretrainingConfig, ReportingConfig
from bmtools.training import distributed
from bmtools.training.distributed import (
    deterministic_algorithms,
    join_processes,
    make_accelerator,
    resolve_auto,
)
from bmtools.training.plan import TrainingPlan


def test_more_processes_than_gpus_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setattr(distributed.torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(BmtoolsError, match="processes: found 4, but this machine has 2 GPUs"):
        make_accelerator(OptimizationConfig(precision="no"))


def test_a_device_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartialState, "_shared_state", {})
    monkeypatch.setattr(distributed.torch.cuda, "is_available", lambda: True)
    assert join_processes(OptimizationConfig(device="cpu", precision="no")).device.type == "cpu"
    with pytest.raises(BmtoolsError, match="device: found 'cuda', which cannot be used here"):
        join_processes(OptimizationConfig(device="cuda", precision="no"))
    monkeypatch.setattr(distributed, "resolve_device", lambda name: name)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BmtoolsError, match="device: found cuda:1 with 2 processes, expected cuda"):
        join_processes(OptimizationConfig(device="cuda:1", precision="no"))


EXACT = OptimizationConfig(deterministic=True)


def test_deterministic_algorithms_are_only_used_inside() -> None:
    with deterministic_algorithms(EXACT):
        assert torch.get_deterministic_debug_mode() == 2, "an error, not a warning"
    with deterministic_algorithms(OptimizationConfig()):
        assert torch.get_deterministic_debug_mode() == 0


def test_an_operation_that_is_not_deterministic_is_named() -> None:
    with pytest.raises(BmtoolsError, match="deterministic: put_ does not have a deterministic"), \
            deterministic_algorithms(EXACT):
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), \
            deterministic_algorithms(EXACT):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


FAST = PrecisionChoice("bf16", "as it is fast")
OLD = PrecisionChoice("fp16", "as the card is old")


@pytest.fixture
def plan(toy_phase: Callable[..., Phase], tmp_path: Path) -> TrainingPlan:
    return TrainingPlan("pretrain", tmp_path / "out", RunConfig((toy_phase(),)),
                        OptimizationConfig(), ReportingConfig())


@pytest.fixture
def suits(monkeypatch: pytest.MonkeyPatch) -> Callable[[PrecisionChoice], None]:
    """Say which precision suits this machine."""
    return lambda choice: monkeypatch.setattr(distributed, "choose_precision", lambda *_: choice)


def state(device: str = "cpu", processes: int = 1, main: bool = True) -> Any:
    return SimpleNamespace(device=torch.device(device), num_processes=processes,
                           is_main_process=main)


def test_a_new_run_gets_a_suitable_precision(plan: TrainingPlan, suits: Callable[...,
                                             None]) -> None:
    suits(FAST)
    found, notes = resolve_auto(plan, None, state())
    assert notes == ["precision auto: bf16, as it is fast"]
    assert found.optimization == OptimizationConfig(precision="bf16")
    assert found.config.run == {"precision": "bf16"}, "phases.toml has it"
    assert found.settings()["precision"] == "bf16"
    assert found.identity({}, "v", [1])["precision"] == "bf16"
    assert (found.layout, resolve_auto(plan, None, state("cuda"))[0].layout) == ("padded", "packed")


@pytest.mark.parametrize(("processes", "interface"), [("2", "lo"), ("1", None)],
                         ids=["one machine", "two machines"])
def test_processes_of_one_machine_need_not_resolve_its_name(
        monkeypatch: pytest.MonkeyPatch, processes: str, interface: str | None) -> None:
    monkeypatch.setattr(distributed, "PartialState", lambda *_, **__: state())
    monkeypatch.setattr(distributed.sys, "platform", "linux")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    for name in ("GLOO_SOCKET_IFNAME", "ACCELERATE_USE_CPU"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    join_processes(OptimizationConfig(device="cpu", precision="no"))
    assert os.environ.get("GLOO_SOCKET_IFNAME") == interface
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1")
    join_processes(OptimizationConfig(device="cpu", precision="no"))
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth1"


def test_sharded_weights_train_in_fp16_and_adversarial_noise_in_float32(
        plan: TrainingPlan, suits: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    suits(OLD)
    monkeypatch.setattr(distributed, "broadcast_object_list", lambda objects: objects)
    for shards in ("1", ""):
        monkeypatch.setenv("BMTOOLS_SHARD", shards)
        assert resolve_auto(plan, None, state("cuda", 2))[0].optimization.precision == "fp16"
    noisy = replace(plan, pretraining=PretrainingConfig(adversarial=1.0))
    found, [note] = resolve_auto(noisy, None, state("cuda"))
    assert found.optimization.precision == "no"
    assert "blurs the noise" in note
