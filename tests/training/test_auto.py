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
from bmtools.training.auto import resolve_auto, resolve_precision
from bmtools.training.plan import TrainingPlan

FAST = PrecisionChoice("bf16", "as it is fast")
OLD = PrecisionChoice("fp16", "as the card is old")


@pytest.fixture
def plan(toy_phase: Callable[..., Phase], tmp_path: Path) -> TrainingPlan:
    return TrainingPlan("pretrain", tmp_path / "out", RunConfig((toy_phase(),)),
                        OptimizationConfig(), ReportingConfig())


@pytest.fixture
def suits(monkeypatch: pytest.MonkeyPatch) -> Callable[[PrecisionChoice | None], None]:
    """Say which precision suits this machine; None where nobody may ask."""

    def say(choice: PrecisionChoice | None) -> None:
        def choose(_config: object, _device: object) -> PrecisionChoice:
            assert choice is not None
            return choice

        monkeypatch.setattr(auto, "choose_precision", choose)

    return say


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that a run was begun: `recorded(precision="bf16")`."""
    return lambda **identity: monkeypatch.setattr(auto, "recorded_identity", lambda _: identity)


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


def test_what_is_said_is_left_alone(plan: TrainingPlan, suits: Callable[..., None]) -> None:
    suits(None)
    said = replace(plan, optimization=OptimizationConfig(precision="bf16"))
    found, notes = resolve_auto(said, None, state())
    assert (found.optimization, found.layout, notes) == (said.optimization, "padded", [])
    settled = said.resolved("packed", "bf16")
    assert resolve_auto(settled, None, state()) == (settled, [])
    assert resolve_precision(said.optimization, None, state()) == (said.optimization, [])


def test_a_run_that_goes_on_keeps_its_precision_and_layout(
        plan: TrainingPlan, suits: Callable[..., None], recorded: Callable[..., None]) -> None:
    suits(FAST)
    recorded(precision="no", layout="packed")
    found, notes = resolve_auto(plan, None, state())
    assert (found.optimization.precision, found.layout) == ("no", "packed")
    assert notes == ["precision auto: no (float32), as the run was begun with it"]


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
