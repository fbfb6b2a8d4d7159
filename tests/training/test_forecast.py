"""Forecasts of runs: they match the runs, and no file remains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError, refuse
from bmtools.models.hardware import Hardware
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    BatchConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    PretrainingConfig,
    ReportingConfig,
)
from bmtools.records import JsonObject
from bmtools.training import metrics
from bmtools.training.forecast import forecast
from bmtools.training.plan import DataConfig, ModelInit, TrainingPlan
from bmtools.training.pretrain import pretrain_lines

pytestmark = pytest.mark.usefixtures("one_thread", "quick")
GIB = 2**30


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time steps for a moment only."""
    monkeypatch.setattr(import_module(forecast.__module__), "PROBE_SECONDS", 0.2)


@pytest.fixture
def look(corpus: Path, vocabulary: Path, tmp_path: Path) -> Callable[..., JsonObject]:
    """Look at phases of a small model: `look(phase, memory_gib=1.0)`."""

    def call(*phases: Phase, processes: int = 1, replay: int = 0, card: str = "",
             **loop: Any) -> JsonObject:
        plan = plan_of(tmp_path / "m", phases, replay, **loop)
        data = DataConfig({"text": (str(corpus),)}, {"replay": (str(corpus),)} if replay else {})
        [line] = pretrain_lines(plan, ModelInit(None, "bert-2x64", vocabulary), data, refuse,
                                partial(forecast, processes=processes, device_kind=card))
        return line

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
                        ReportingConfig(logging_steps=1000),
                        pretraining=PretrainingConfig(replay_steps=replay),
                        extra={"architecture": "bert-2x64"})


def test_a_forecast_comes_true(look: Callable[..., JsonObject], toy_phase: Callable[..., Phase],
                               corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    """Steps and tokens nearly exactly, speed in the right unit (other work shares the machine)."""
    phases = (toy_phase(200, BatchConfig(32, 16), "a"),
              replace(toy_phase(0, BatchConfig(32, 16), "b", objective="causal"),
                      length=PhaseLengthConfig(epochs=8)))
    plan = plan_of(tmp_path / "m", phases)
    lines = list(pretrain_lines(plan, ModelInit(None, "bert-2x64", vocabulary),
                                DataConfig({"text": (str(corpus),)}), refuse))
    reported = [line for line in lines if "tokens_per_second" in line]
    found = look(*phases)
    for phase, line in zip(found["phases"], reported, strict=True):
        assert 0.05 < phase["tokens_per_second"] / line["tokens_per_second"] < 20
    assert [phase["steps"] for phase in found["phases"]] == [200, reported[1]["step"] - 200]
    assert sum(phase["tokens"] for phase in found["phases"]) == pytest.approx(
        lines[-1]["tokens_seen"], rel=0.02)
    for phase in found["phases"]:
        seconds = phase["tokens"] / phase["tokens_per_second"]
        assert phase["hours"] == pytest.approx(seconds / 3600, rel=0.01)
    assert found["hours"] == pytest.approx(sum(phase["hours"] for phase in found["phases"]),
                                           rel=0.01)


def test_micro_batches_are_those_set_or_fitted(look: Callable[..., JsonObject],
                                               toy_phase: Callable[..., Phase]) -> None:
    phase = toy_phase(2, BatchConfig(32, 8))
    assert look(phase)["phases"][0]["micro_batch_size"] == 8
    assert look(phase, micro_batch_size=2)["phases"][0]["micro_batch_size"] == 2
    wide = toy_phase(2, BatchConfig(32, 4096))
    whole = look(wide, memory_gib=1000.0)["phases"][0]
    assert whole["micro_batch_size"] == 4096
    less = look(wide, memory_gib=whole["memory_gib"] - 0.1)["phases"][0]
    assert 1 <= less["micro_batch_size"] < 4096
    assert less["memory_gib"] < whole["memory_gib"]


def test_replayed_batches_take_their_time(look: Callable[..., JsonObject],
                                          toy_phase: Callable[..., Phase]) -> None:
    [phase] = look(toy_phase(4), replay=4)["phases"]
    seconds = 1.25 * phase["tokens"] / phase["tokens_per_second"]
    assert phase["hours"] == pytest.approx(seconds / 3600, rel=0.01)


@pytest.mark.parametrize(("kind", "speed"), [("cuda", 4), ("cpu", 1)])
def test_hours_of_several_processes_assume_a_perfect_speed_up(
        look: Callable[..., JsonObject], toy_phase: Callable[..., Phase],
        machine: Callable[..., None], kind: str, speed: int) -> None:
    """GPUs add up, but processes on a CPU share its cores."""
    machine(kind=kind, watts=400, bf16=False)
    found = look(toy_phase(200, BatchConfig(32, 8)), processes=4)
    [phase] = found["phases"]
    assert phase["micro_batch_size"] == 2
    hours = phase["tokens"] / phase["tokens_per_second"] / 3600
    assert phase["hours"] == found["hours"] == pytest.approx(hours / speed, rel=0.01)
    assert found["kwh"] == pytest.approx(0.4 * hours, rel=0.01)
    [warning] = found["warnings"]
    times = {1: "", 4: "4 times "}[speed]
    assert f"without a measurement, that 4 processes are {times}as fast as one" in warning
    with pytest.raises(BmtoolsError, match="found 8, expected a multiple of the 3 processes"):
        look(toy_phase(2, BatchConfig(32, 8)), processes=3)


def test_energy_is_limited_by_one_board(look: Callable[..., JsonObject],
                                        toy_phase: Callable[..., Phase],
                                        machine: Callable[..., None]) -> None:
    assert look(toy_phase(2))["kwh"] is None
    machine(kind="cuda", watts=400, count=8)
    found = look(toy_phase(2), tf32=True)
    assert found["precision"] == "tf32"
    assert found["kwh"] == pytest.approx(0.4 * (found["hours"] or 0), rel=0.01)


def test_a_run_beyond_this_memory_is_an_error_or_a_warning(look: Callable[..., JsonObject],
                                                           toy_phase: Callable[..., Phase],
                                                           machine: Callable[..., None]) -> None:
    """If a batch does not fit, a part is measured; if a row does not fit, there is an error."""
    phase = toy_phase(2, BatchConfig(32, 65536))
    needed = look(toy_phase(2, BatchConfig(32, 64)))["phases"][0]["memory_gib"]
    machine(memory_bytes=int((needed + 1) * GIB), bf16=False)
    found = look(phase)
    [warning] = found["warnings"]
    assert "a micro-batch of 65536 sequences may take" in warning and "OUT OF MEMORY" in warning
    assert found["phases"][0]["memory_gib"] > needed + 1
    machine(memory_bytes=GIB // 10)
    with pytest.raises(BmtoolsError, match=r"a single sequence of 32 tokens needs .* may use 0\.1"):
        look(phase)


def test_a_run_beyond_this_memory_fails_before_its_first_step(
        look: Callable[..., JsonObject], toy_phase: Callable[..., Phase],
        machine: Callable[..., None], corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    """The error names the micro-batch that fits; a given micro-batch is not checked."""
    needed = look(toy_phase(2, BatchConfig(32, 64)))["phases"][0]["memory_gib"]
    machine(memory_bytes=int((needed + 1) * GIB))
    model, data = ModelInit(None, "bert-2x64", vocabulary), DataConfig({"text": (str(corpus),)})

    def first_line(size: int, given: int = 0) -> JsonObject:
        plan = plan_of(tmp_path / "m", (toy_phase(2, BatchConfig(32, size)),),
                       micro_batch_size=given)
        return next(pretrain_lines(plan, model, data, refuse))

    with pytest.raises(BmtoolsError, match=r"phase 'main': a batch of 65536 sequences may take .* "
                                           r"may use .*; set micro_batch_size to \d\d+ or less"):
        first_line(65536)
    assert not [*tmp_path.glob("m*")]
    assert first_line(64).keys() == first_line(65536, 64).keys() == {"note"}


def test_a_dry_run_prints_a_line_without_writing_files(
        run: Callable[..., Any], corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    """An existing output is not changed, and bad settings are errors as in a run."""
    common = (corpus, "--steps", 3, "--max-length", 16, "--batch-size", 4)
    teacher, out = tmp_path / "teacher", tmp_path / "out"
    start = ("pretrain", *common, "--architecture", "bert-1x64", "--tokenizer", vocabulary)
    assert run(*start, "-o", teacher).code == 0
    out.mkdir()
    (out / "mine").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for arguments in (start, ("distill", *common, "--teacher", teacher, "--architecture",
                              "bert-1x128")):
        outcome = run(*arguments, "-o", out, "--dry-run", "--set", "dropout=0.1")
        assert outcome.code == 0, outcome.err
        [line] = outcome.records
        assert (line["phases"][0]["steps"], line["hours"] > 0) == (3, True)
        assert run(*arguments, "--dry-run").code == 0
        assert "Missing option '-o' / '--output'." in run(*arguments).err
        refused = run(*arguments, "-o", out, "--dry-run", "--set", "dropuot=0.1")
        assert (refused.code, refused.out) == (2, "")
        assert "found unknown key 'dropuot', did you mean 'dropout'?" in refused.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_forecast_for_another_card_has_bounds(look: Callable[..., JsonObject],
                                                toy_phase: Callable[..., Phase]) -> None:
    """Speed, hours and energy for three shares of the peak, without timing."""
    found = look(toy_phase(200, BatchConfig(32, 64)), toy_phase(100, BatchConfig(32, 64), "b"),
                 processes=4, card="h100")
    assert found["device"] == {"name": "h100", "kind": "cuda", "count": 1, "memory_gib": 74.51,
                               "bf16": True}
    assert found["precision"] == "bf16" and found["notes"] == []
    for phase in found["phases"]:
        assert phase["micro_batch_size"] == 16
        for hours, kwh, rate in zip(phase["hours"], phase["kwh"], phase["tokens_per_second"],
                                    strict=True):
            assert hours == pytest.approx(phase["tokens"] / rate / 4 / 3600, rel=0.01)
            assert kwh == pytest.approx(0.7 * 4 * hours, rel=0.01)
    assert found["hours"] == pytest.approx([
        sum(column) for column in zip(*(phase["hours"] for phase in found["phases"]),
                                      strict=True)], rel=0.001)
    [warning] = found["warnings"]
    assert warning.startswith("forecast for h100, which this machine does not have: nothing was")
    assert "20, 25 and 45 % of the card's peak" in warning
    assert look(toy_phase(2), card="t4")["precision"] == "fp16"


def test_a_card_needs_a_dry_run(run: Callable[..., Any], corpus: Path, vocabulary: Path,
                                tmp_path: Path) -> None:
    arguments = ("pretrain", corpus, "--architecture", "bert-1x64", "--tokenizer", vocabulary,
                 "--steps", 2, "--device-kind")
    refused = run(*arguments, "h100", "-o", tmp_path / "m")
    assert refused.code == 2 and "--device-kind: found without --dry-run" in refused.err
    unknown = run(*arguments, "h1000", "--dry-run")
    assert unknown.code == 2 and "'h100'" in unknown.err
