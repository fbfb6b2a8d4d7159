"""Forecasts of runs: they come true, and leave nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError, refuse
from bmtools.models.hardware import Hardware
from bmtools.models.precision import PrecisionChoice
from bmtools.models.varlen import loops_over_documents
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    BatchConfig,
    FreezeConfig,
    LearningRateConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    PreflightConfig,
    ReplayConfig,
    ReportingConfig,
)
from bmtools.training import metrics
from bmtools.training.plan import DataConfig, ModelInit, TrainingPlan
from bmtools.training.preflight import Forecast, forecast_run, preflight
from bmtools.training.pretrain import pretrain_lines

pytestmark = pytest.mark.usefixtures("one_thread")
GIB = 2**30
QUICK = PreflightConfig(probe_seconds=0.05)


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories lie."""
    (tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))
    return tmp_path / "aside"


@pytest.fixture
def look(corpus: Path, vocabulary: Path, tmp_path: Path,
         aside: Path) -> Callable[..., Forecast]:
    """Look at phases of a small model: `look(phase, memory_gib=1.0)`."""

    def call(*phases: Phase, processes: int = 1, sharded: bool = False,
             probe: PreflightConfig = QUICK, replay: int = 0, **loop: Any) -> Forecast:
        plan = plan_of(tmp_path / "m", phases, replay, **loop)
        data = DataConfig({"text": (str(corpus),)}, {"replay": (str(corpus),)} if replay else {})
        return forecast_run(plan, ModelInit(None, "bert-2x64", vocabulary), data, refuse, probe,
                            processes, sharded)

    return call


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend to compute on something: `machine(bf16=False)`."""

    def pretend(**facts: Any) -> None:
        found = replace(Hardware("cpu", "an abacus", 2, 1000 * GIB, True), **facts)
        monkeypatch.setattr(metrics, "describe_hardware", lambda _kind: found)

    return pretend


def plan_of(output: Path, phases: tuple[Phase, ...], replay: int = 0, **loop: Any) -> TrainingPlan:
    return TrainingPlan("pretrain", output, RunConfig(phases), OptimizationConfig(**loop),
                        ReportingConfig(logging_steps=1000), replay=ReplayConfig(replay),
                        extra={"architecture": "bert-2x64"})


def test_a_forecast_comes_true(look: Callable[..., Forecast], toy_phase: Callable[..., Phase],
                               corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    """Steps and tokens nearly exactly, speed in the right unit (other work shares the machine)."""
    phases = (toy_phase(200, BatchConfig(32, 16), "a"),
              replace(toy_phase(0, BatchConfig(32, 16), "b", objective="causal"),
                      length=PhaseLengthConfig(epochs=8)))
    plan = plan_of(tmp_path / "m", phases)
    lines = list(pretrain_lines(plan, ModelInit(None, "bert-2x64", vocabulary),
                                DataConfig({"text": (str(corpus),)}), refuse))
    reported = [line for line in lines if "tokens_per_second" in line]
    found = look(*phases, probe=PreflightConfig(0.5))
    for phase, line in zip(found.phases, reported, strict=True):
        assert 0.05 < phase.tokens_per_second / line["tokens_per_second"] < 20
    assert [phase.steps for phase in found.phases] == [200, reported[1]["step"] - 200]
    assert sum(phase.tokens for phase in found.phases) == pytest.approx(
        lines[-1]["tokens_seen"], rel=0.02)
    for phase in found.phases:
        assert phase.hours == pytest.approx(phase.tokens / phase.tokens_per_second / 3600, rel=0.01)
    assert found.hours == pytest.approx(sum(phase.hours or 0 for phase in found.phases), rel=0.01)


@pytest.mark.parametrize(("device", "layout", "told"), [
    ("cpu", "packed", False), ("xpu", "packed", True), ("xpu", "padded", False)])
def test_packed_documents_without_a_kernel_are_told(
        look: Callable[..., Forecast], toy_phase: Callable[..., Phase], device: str, layout: str,
        told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module(preflight.__module__), "loops_over_documents",
                        lambda _device: loops_over_documents(torch.device(device)))
    found = look(toy_phase(2, BatchConfig(32, 4, layout=layout)))
    assert any("ONCE FOR EACH RUN" in warning for warning in found.warnings) == told


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_nothing_stays_behind(look: Callable[..., Forecast], toy_phase: Callable[..., Phase],
                              tmp_path: Path, aside: Path, layout: str) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    found = look(toy_phase(2, BatchConfig(32, 8, layout=layout)))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not list(aside.iterdir())
    [phase] = found.phases
    assert phase.layout == layout
    assert found.packing_check == ("passed" if layout == "packed" else None)
    assert 0.85 < phase.fill_rate <= 1.0


def test_weights_and_their_rest_are_counted(look: Callable[..., Forecast],
                                            toy_phase: Callable[..., Phase], model: Any) -> None:
    half = replace(toy_phase(2, name="half"), freeze=FreezeConfig(frozen_layers=1))
    found = look(toy_phase(2, name="all"), half)
    weights = dict(model.named_parameters())
    frozen = sum(weight.numel() for name, weight in weights.items()
                 if "embeddings" in name or "layer.0." in name)
    assert found.parameters == sum(weight.numel() for weight in weights.values())
    assert [phase.frozen_parameters for phase in found.phases] == [0, frozen]


def test_a_growing_batch_counts_as_it_grows(look: Callable[..., Forecast],
                                            toy_phase: Callable[..., Phase]) -> None:
    """Ten steps of 2, 4, 6 and 8 sequences, and ten of 8."""
    flat, growing = look(toy_phase(20, BatchConfig(32, 8), "flat"),
                         toy_phase(20, BatchConfig(32, 8, 2, 0.5), "growing")).phases
    assert growing.tokens / flat.tokens == pytest.approx(
        (8 * 10 + 2 * 4 + 4 * 3 + 6 * 3) / 160, rel=0.01)


def test_micro_batches_are_those_set_or_fitted(look: Callable[..., Forecast],
                                               toy_phase: Callable[..., Phase]) -> None:
    phase = toy_phase(2, BatchConfig(32, 8))
    assert look(phase).phases[0].micro_batch_size == 8
    assert look(phase, micro_batch_size=2).phases[0].micro_batch_size == 2
    wide = toy_phase(2, BatchConfig(32, 4096))
    whole = look(wide, memory_gib=1000.0).phases[0]
    assert whole.micro_batch_size == 4096
    less = look(wide, memory_gib=whole.memory_gib - 0.1).phases[0]
    assert 1 <= less.micro_batch_size < 4096
    assert less.memory_gib < whole.memory_gib


def test_replayed_batches_take_their_time(look: Callable[..., Forecast],
                                          toy_phase: Callable[..., Phase]) -> None:
    [phase] = look(toy_phase(4), replay=4).phases
    assert phase.hours == pytest.approx(1.25 * phase.tokens / phase.tokens_per_second / 3600,
                                        rel=0.01)


def test_several_processes_are_not_guessed(look: Callable[..., Forecast],
                                           toy_phase: Callable[..., Phase],
                                           machine: Callable[..., None]) -> None:
    machine(bf16=False)
    found = look(toy_phase(2, BatchConfig(32, 8)), processes=4, sharded=True)
    assert found.phases[0].micro_batch_size == 2
    assert found.phases[0].tokens_per_second > 0
    assert (found.phases[0].hours, found.hours, found.kwh) == (None, None, None)
    [warning] = found.warnings
    assert "4 together were not measured" in warning
    with pytest.raises(BmtoolsError, match="found 8, expected a multiple of the 3 processes"):
        look(toy_phase(2, BatchConfig(32, 8)), processes=3)
    with pytest.raises(BmtoolsError, match="optimizer: found muon, which does not go"):
        look(toy_phase(2, BatchConfig(32, 8)), processes=2, sharded=True, optimizer="muon")


@pytest.mark.parametrize(("precision", "bf16", "native"), [
    ("bf16", False, False), ("bf16", True, True), ("no", False, True)])
def test_emulated_precision_is_called_so(
        look: Callable[..., Forecast], toy_phase: Callable[..., Phase],
        machine: Callable[..., None], precision: str, bf16: bool, native: bool) -> None:
    machine(bf16=bf16)
    found = look(toy_phase(2), mixed_precision=precision)
    assert (found.precision, found.native) == (precision, native)
    assert ["EMULATED" in warning for warning in found.warnings] == ([] if native else [True])


def test_a_processor_with_bf16_gets_a_hint(
        look: Callable[..., Forecast], toy_phase: Callable[..., Phase],
        machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine(bf16=True)
    assert not look(toy_phase(2), mixed_precision="no").warnings, "too narrow to gain by it"
    monkeypatch.setattr(import_module("bmtools.training.preflight"), "choose_precision",
                        lambda _config, _device: PrecisionChoice("bf16", "as a core is fast"))
    [hint] = look(toy_phase(2), mixed_precision="no").warnings
    assert hint.startswith("mixed_precision bf16 would be faster")


def test_a_phase_that_ends_in_its_warmup_is_warned_of(look: Callable[..., Forecast],
                                                      toy_phase: Callable[..., Phase],
                                                      machine: Callable[..., None]) -> None:
    machine(bf16=False)
    late = replace(toy_phase(2), learning_rate=LearningRateConfig(warmup_steps=3))
    [warning] = look(late).warnings
    assert "warmup_steps is 3, but the phase ends after 2" in warning


def test_energy_is_that_of_one_board(look: Callable[..., Forecast],
                                     toy_phase: Callable[..., Phase],
                                     machine: Callable[..., None]) -> None:
    assert look(toy_phase(2)).kwh is None
    machine(kind="cuda", watts=400, count=8)
    found = look(toy_phase(2), tf32=True)
    assert found.precision == "tf32"
    assert found.kwh == pytest.approx(0.4 * (found.hours or 0), rel=0.01)


def test_a_run_beyond_this_memory_is_refused_or_warned_of(look: Callable[..., Forecast],
                                                          toy_phase: Callable[..., Phase],
                                                          machine: Callable[..., None]) -> None:
    """Of a batch that does not fit, a part is tried; of a row that does not fit, nothing."""
    phase = toy_phase(2, BatchConfig(32, 65536))
    needed = look(toy_phase(2, BatchConfig(32, 64))).phases[0].memory_gib
    machine(memory_bytes=int((needed + 1) * GIB), bf16=False)
    found = look(phase)
    [warning] = found.warnings
    assert "a micro-batch of 65536 sequences may take" in warning and "OUT OF MEMORY" in warning
    assert found.phases[0].memory_gib > needed + 1
    machine(memory_bytes=GIB // 10)
    with pytest.raises(BmtoolsError, match=r"a single sequence of 32 tokens takes .* may use 0\.1"):
        look(phase)


def test_the_record_is_plain(look: Callable[..., Forecast],
                             toy_phase: Callable[..., Phase]) -> None:
    record = look(toy_phase(2)).record()
    assert set(record["device"]) == {"name", "kind", "count", "memory_gib", "bf16"}
    assert [phase["name"] for phase in record["phases"]] == ["main"]


def test_it_can_be_called_with_ordinary_arguments(corpus: Path, vocabulary: Path, tmp_path: Path,
                                                  aside: Path) -> None:
    before = sorted(tmp_path.iterdir())
    found = preflight(corpus, architecture="bert-1x64", tokenizer=vocabulary, max_length=16,
                      batch_size=4, steps=3, probe_seconds=0.05)
    [phase] = found.phases
    assert (phase.steps, phase.max_length, phase.micro_batch_size) == (3, 16, 4)
    assert found.hours == phase.hours
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(ValueError, match="stepz"):
        preflight(corpus, architecture="bert-1x64", tokenizer=vocabulary, stepz=3)
