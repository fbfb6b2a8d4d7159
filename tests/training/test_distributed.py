"""Accelerators of one process and of several."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    is_sharded,
    join_processes,
    make_accelerator,
    others_wait,
    shard,
    sum_over_processes,
)
from bmtools.training.objectives import MaskedObjective


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
        make_accelerator(OptimizationConfig(mixed_precision="no"))


@pytest.mark.parametrize("said", ["true", "1", "True"])
def test_fsdp_of_accelerate_is_taken_over(monkeypatch: pytest.MonkeyPatch,
                                                       said: str) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", said)
    monkeypatch.setenv("BMTOOLS_SHARD", "")
    accelerator = make_accelerator(OptimizationConfig(mixed_precision="no"))
    assert os.environ["BMTOOLS_SHARD"] == "1"
    assert "ACCELERATE_USE_FSDP" not in os.environ
    assert not is_sharded(accelerator), "one process has nothing to shard"


def test_processes_wait_for_each_other_for_less_than_an_hour(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """One that died on another machine would keep the others, and their GPUs, for as long."""
    given: dict[str, Any] = {}
    state = join_processes(OptimizationConfig())
    monkeypatch.setattr(distributed, "PartialState",
                        lambda _cpu, **settings: given.update(settings) or state)
    assert join_processes(OptimizationConfig()) is state
    assert timedelta(minutes=10) <= given["timeout"] < timedelta(hours=1)


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
    with pytest.raises(BmtoolsError, match="deterministic: put_ has no deterministic algorithm on "
                                           "this device; leave it out"), \
            deterministic_algorithms(EXACT):
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    assert switches() == before
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), \
            deterministic_algorithms(EXACT):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


def test_a_workspace_of_cublas_that_is_not_deterministic_is_named(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    with pytest.raises(BmtoolsError, match="CUBLAS_WORKSPACE_CONFIG=:4096:8, found :0:0"), \
            deterministic_algorithms(EXACT):
        raise RuntimeError("Deterministic behavior was enabled with either ..., but this operation "
                           "is not deterministic because it uses CuBLAS ... set an environment "
                           "variable ...: CUBLAS_WORKSPACE_CONFIG=:4096:8")


@pytest.fixture
def sixteen_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The first of sixteen processes on two machines, as far as torch can tell; nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    torch.distributed.init_process_group("fake", rank=0, world_size=16, store=FakeStore())
    yield SimpleNamespace(device=torch.device("cpu"), num_processes=16, mixed_precision="bf16")
    torch.distributed.destroy_process_group()


def test_each_machine_has_a_copy_of_sharded_weights(model: Any, sixteen_processes: Any) -> None:
    names = {name: weight.shape for name, weight in model.named_parameters()}
    objective = MaskedObjective(model)
    shard(objective, sixteen_processes)
    for name, weight in model.named_parameters():
        assert weight.shape == names[name] and weight.dtype == torch.float32
        assert weight.device_mesh.mesh.tolist() == [[*range(8)], [*range(8, 16)]]
        assert [str(one) for one in weight.placements] == ["R", "S(0)"]
        assert weight.to_local().shape[0] == -(-names[name][0] // 8)


@pytest.mark.parametrize(("kind", "casts"), [("cpu", True), ("cuda", False)])
def test_weights_are_sent_in_bfloat16_and_gradients_in_float32(kind: str, casts: bool) -> None:
    policy = distributed._precision_policy(SimpleNamespace(
        device=torch.device(kind), mixed_precision="bf16"))
    assert (policy.param_dtype, policy.reduce_dtype) == (torch.bfloat16, torch.float32)
    assert policy.cast_forward_inputs == casts
    exact = distributed._precision_policy(SimpleNamespace(
        device=torch.device(kind), mixed_precision="no"))
    assert exact.param_dtype is None
