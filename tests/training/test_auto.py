"""Layout and precision that a run leaves to its machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bmtools.models.precision import PrecisionChoice
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import OptimizationConfig, PretrainingConfig, ReportingConfig
from bmtools.training import auto, distributed
from bmtools.training.auto import resolve_auto
from bmtools.training.plan import TrainingPlan

FAST = PrecisionChoice("bf16", "as it is fast")
OLD = PrecisionChoice("fp16", "as the card is old")


@pytest.fixture
def plan(toy_phase: Callable[..., Phase], tmp_path: Path) -> TrainingPlan:
    return TrainingPlan("pretrain", tmp_path / "out", RunConfig((toy_phase(),)),
                        OptimizationConfig(), ReportingConfig())


@pytest.fixture
def suits(monkeypatch: pytest.MonkeyPatch) -> Callable[[PrecisionChoice], None]:
    """Say which precision suits this machine."""
    return lambda choice: monkeypatch.setattr(auto, "choose_precision", lambda *_: choice)


def state(device: str = "cpu", processes: int = 1, main: bool = True) -> Any:
    return SimpleNamespace(device=torch.device(device), num_processes=processes,
                           is_main_process=main)


def test_a_new_run_gets_what_suits(plan: TrainingPlan, suits: Callable[..., None]) -> None:
    suits(FAST)
    found, notes = resolve_auto(plan, None, state())
    assert notes == ["precision auto: bf16, as it is fast"]
    assert found.optimization == OptimizationConfig(precision="bf16")
    assert found.config.run == {"precision": "bf16"}, "phases.toml has it"
    assert found.settings()["precision"] == "bf16"
    assert found.identity({}, "v", [1])["precision"] == "bf16"
    assert (found.layout, resolve_auto(plan, None, state("cuda"))[0].layout) == ("padded", "packed")


def test_sharded_weights_and_adversarial_noise_stay_in_float32(
        plan: TrainingPlan, suits: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    suits(OLD)
    monkeypatch.setattr(distributed, "broadcast_object_list", lambda objects: objects)
    monkeypatch.setenv("BMTOOLS_SHARD", "1")
    found, [note] = resolve_auto(plan, None, state("cuda", 2))
    assert found.optimization.precision == "no"
    assert note.endswith("no (float32), as the card is old, and sharded weights go without fp16")
    monkeypatch.setenv("BMTOOLS_SHARD", "")
    assert resolve_auto(plan, None, state("cuda", 2))[0].optimization.precision == "fp16"
    noisy = replace(plan, pretraining=PretrainingConfig(adversarial=1.0))
    found, [note] = resolve_auto(noisy, None, state("cuda"))
    assert found.optimization.precision == "no"
    assert "blurs the noise" in note
