"""Accelerators of one process and of several."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from accelerate import PartialState

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training import distributed
from bmtools.training.distributed import (
    deterministic_algorithms,
    join_processes,
    make_accelerator,
)


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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


def switches() -> tuple[Any, ...]:
    return (torch.get_deterministic_debug_mode(), torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark, torch.utils.deterministic.fill_uninitialized_memory)


def test_deterministic_algorithms_are_used_inside_alone() -> None:
    before = switches()
    with deterministic_algorithms(EXACT):
        assert switches() == (2, True, False, False), "2: an error, not a warning"
    assert switches() == before
    with deterministic_algorithms(OptimizationConfig()):
        assert switches() == before


def test_an_operation_that_is_not_deterministic_is_named() -> None:
    before = switches()
    with pytest.raises(BmtoolsError, match="deterministic: put_ does not have a deterministic"), \
            deterministic_algorithms(EXACT):
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    assert switches() == before
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), \
            deterministic_algorithms(EXACT):
        torch.zeros(2, 3) @ torch.zeros(2, 3)
