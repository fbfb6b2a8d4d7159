"""Accelerators of one process and of several."""

from __future__ import annotations

import os

import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training import distributed
from bmtools.training.distributed import is_sharded, make_accelerator


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
