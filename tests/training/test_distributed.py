"""Accelerators of one process and of several."""

from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training import distributed
from bmtools.training.distributed import (
    is_sharded,
    make_accelerator,
    others_wait,
    sum_over_processes,
)


def test_one_precision_after_another_in_one_program() -> None:
    for precision in ("no", "bf16", "no"):
        accelerator = make_accelerator(OptimizationConfig(mixed_precision=precision))
        assert accelerator.mixed_precision == precision
    assert not is_sharded(accelerator)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU trains in fp16")
def test_a_processor_does_not_train_in_fp16() -> None:
    with pytest.raises(BmtoolsError, match="mixed_precision: found fp16, which a CPU cannot "
                                           "train in; expected bf16 or no"):
        make_accelerator(OptimizationConfig(mixed_precision="fp16"))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setattr(distributed.torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(distributed.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(BmtoolsError, match="processes: found 4, but this machine has 2 GPUs"):
        make_accelerator(OptimizationConfig())


@pytest.mark.parametrize("said", ["true", "1", "True"])
def test_fsdp_of_accelerate_is_taken_over(monkeypatch: pytest.MonkeyPatch,
                                                       said: str) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", said)
    monkeypatch.setenv("BMTOOLS_SHARD", "")
    accelerator = make_accelerator(OptimizationConfig())
    assert os.environ["BMTOOLS_SHARD"] == "1"
    assert "ACCELERATE_USE_FSDP" not in os.environ
    assert not is_sharded(accelerator), "one process has nothing to shard"


def test_processes_wait_for_each_other_for_less_than_an_hour(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """One that died on another machine would keep the others, and their GPUs, for as long."""
    given: dict[str, Any] = {}
    accelerator = make_accelerator(OptimizationConfig())
    monkeypatch.setattr(distributed, "Accelerator",
                        lambda **settings: given.update(settings) or accelerator)
    make_accelerator(OptimizationConfig())
    waits = [handler.timeout for handler in given["kwargs_handlers"]
             if hasattr(handler, "timeout")]
    assert len(waits) == 1 and timedelta(minutes=10) <= waits[0] < timedelta(hours=1)


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


def test_sums_stay_off_a_device_that_serves_one_process() -> None:
    """Apple's GPUs know no float64."""
    one = SimpleNamespace(num_processes=1, device=torch.device("mps"))
    sums = torch.tensor([1 / 3, 2.0], dtype=torch.float64)
    assert sum_over_processes(sums, one) == [1 / 3, 2.0]
    two = SimpleNamespace(num_processes=2, device=torch.device("cpu"),
                          reduce=lambda own, _how: 2 * own)
    assert sum_over_processes(sums, two) == [2 / 3, 4.0]
