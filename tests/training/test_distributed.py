"""Accelerators of one process and of several."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training import distributed
from bmtools.training.distributed import (
    deterministic_algorithms,
    make_accelerator,
    others_wait,
)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU trains in fp16")
def test_a_processor_does_not_train_in_fp16() -> None:
    with pytest.raises(BmtoolsError, match="precision: found fp16, which a CPU cannot "
                                           "train in; expected bf16 or no"):
        make_accelerator(OptimizationConfig(precision="fp16"))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setattr(distributed.torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(BmtoolsError, match="processes: found 4, but this machine has 2 GPUs"):
        make_accelerator(OptimizationConfig(precision="no"))


def test_others_wait_for_days_where_the_main_process_encodes(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """In a group of their own, which is there before the work, so that it fails before hours."""
    events: list[object] = []

    def new_group(backend: str, timeout: timedelta) -> str:
        events.append((backend, timeout))
        return "group"

    for name, call in (("new_group", new_group),
                       ("barrier", lambda group: events.append(f"barrier of {group}")),
                       ("destroy_process_group", lambda group: events.append(f"no {group}"))):
        monkeypatch.setattr(torch.distributed, name, call)
    with others_wait(SimpleNamespace(num_processes=1)):
        assert not events, "nobody waits"
    with others_wait(SimpleNamespace(num_processes=2)):
        events.append("work")
    assert events == [("gloo", timedelta(days=2)), "work", "barrier of group", "no group"]


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


@pytest.mark.parametrize(("kind", "casts"), [("cpu", True), ("cuda", False)])
def test_weights_are_sent_in_bfloat16_and_gradients_in_float32(kind: str, casts: bool) -> None:
    policy = distributed._precision_policy(SimpleNamespace(
        device=torch.device(kind), mixed_precision="bf16"))
    assert (policy.param_dtype, policy.reduce_dtype) == (torch.bfloat16, torch.float32)
    assert policy.cast_forward_inputs == casts
    exact = distributed._precision_policy(SimpleNamespace(
        device=torch.device(kind), mixed_precision="no"))
    assert exact.param_dtype is None
