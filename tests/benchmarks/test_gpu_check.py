"""The parts of the GPU check that run without a GPU: its parts, their limits, and its page."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import gpu_check
import pytest
import race as race_of_sides
import side
import test_bench_preflight_gpu
import test_bench_pretrain_gpu
import test_bench_scoring
import torch
from gpu_check import BUDGET_SECONDS, Outcome, Part, parts, run_parts, write_report
from gpu_report import GOALS, judge, markdown
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

ROOT = Path(__file__).parents[2]
# A program that replaces pytest; its first argument sets its behaviour.
PROGRAM = """
import json, sys, time
what, *options = sys.argv[1:]
paths = dict(option.split("=", 1) for option in options if "=" in option)
cases = {"passes": "", "fails": '<failure message="AssertionError: 2 is not 3&#10;more"/>',
         "skips": '<skipped/>'}
if what in cases:
    with open(paths["--junitxml"], "w") as file:
        file.write(f'<testsuites><testsuite><testcase name="test_it">{cases[what]}</testcase>'
                   '</testsuite></testsuites>')
if what == "passes":
    with open(paths["--benchmark-json"], "w") as file:
        json.dump({"machine_info": {"cpu": {}}, "benchmarks": [
            {"name": "test_it", "params": None, "extra_info": {"busy": 0.9}}]}, file)
if what == "skips":
    print("SKIPPED [1] tests/test_it.py:3: minicons is not there")
if what == "crashes":
    sys.exit("Fatal: the driver is gone")
if what == "hangs":
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(60)
sys.exit({"fails": 1}.get(what, 0))
"""


def run(*kinds: str, limit: float = 20.0, budget: float = 100.0) -> list[Outcome]:
    return list(run_parts([Part(kind, (kind,), limit) for kind in kinds], budget,
                          (sys.executable, "-S", "-c", PROGRAM)))


def test_other_parts_run_if_one_does_not_pass() -> None:
    fails, crashes, skips, passes = run("fails", "crashes", "skips", "passes")
    assert (fails.status, fails.detail) == ("failed", "test_it: AssertionError: 2 is not 3")
    assert (crashes.status, crashes.detail) == ("failed", "Fatal: the driver is gone")
    assert (skips.status, skips.detail) == ("skipped", "minicons is not there")
    assert (passes.status, passes.detail, passes.tests) == ("passed", "", {"test_it": "passed"})
    assert passes.benchmarks[0]["extra_info"] == {"busy": 0.9}


def test_a_hanging_part_is_ended_with_its_children() -> None:
    began = time.monotonic()
    hangs, passes = run("hangs", "passes", limit=0.4)
    assert (hangs.status, hangs.detail) == ("out of time", "it was ended after 0 seconds")
    assert time.monotonic() - began < 10
    assert passes.status in ("passed", "out of time"), "the next one had its own time"


def test_limits_add_up_to_less_than_twenty_minutes() -> None:
    assert sum(part.limit_seconds for part in parts()) <= BUDGET_SECONDS - 30
    assert BUDGET_SECONDS == 20 * 60


def test_parts_name_existing_tests() -> None:
    defined = set()
    for part in parts():
        for argument in part.arguments:
            path, _, test = argument.partition("::")
            if not path.endswith(".py"):
                continue
            text = (ROOT / path).read_text(encoding="utf-8")
            assert "mark.gpu" in text
            name = test.partition("[")[0]
            assert not name or f"def {name}(" in text
            defined |= {*re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert "test_a_deterministic_gpu_resumes_with_the_same_bytes" in defined
    assert {goal.part for goal in GOALS} <= {part.name for part in parts()}


def test_a_missing_gpu_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main(tmp_path / "out") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("gpu-check: no GPU: ")
    assert not (tmp_path / "out").exists()


def entry(name: str, **info: Any) -> dict[str, Any]:
    return {"name": name, "params": {"architecture": "bert-base", "max_length": 512},
            "extra_info": info}


def race(size: str, peer: str, ratio: float, rate: int, share: float) -> dict[str, Any]:
    compiled = " compiled" if peer.endswith("compiled") else ""
    test = "test_compiled_pretraining_on_a_gpu" if compiled else "test_pretrain_on_a_gpu"
    ours = f"packed{compiled}"
    return entry(f"{test}[{size}]", architecture=size.rpartition("-")[0], max_length=512,
                 precision="bf16", gpu="NVIDIA H200", real_text=False, failures={},
                 times_faster={ours: {peer: {"median": ratio, "lowest": ratio, "highest": ratio}}},
                 sides={ours: {"tokens_per_second": rate, "peak_megabytes": 10},
                        peer: {"tokens_per_second": round(rate / ratio), "peak_megabytes": 20}},
                 share_of_peak={ours: share, peer: 0.01})


def part(name: str, *benchmarks: dict[str, Any], status: str = "passed", detail: str = "",
         tests: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "status": status, "seconds": 60.0, "limit_seconds": 95, "detail": detail,
            "tests": tests or {}, "benchmarks": benchmarks,
            "machine": {"cpu": {}, "machine": "x86_64", "versions": {"torch": "2.11.0"}}}


EXACT = "test_a_deterministic_gpu_resumes_with_the_same_bytes"
# A made-up record of a check.
RECORD: dict[str, Any] = {
    "date": "2026-11-22",
    "machine": {"card": "NVIDIA H200", "cards": 1, "memory_gib": 139.8, "driver": "580.1",
                "compute_capability": "9.0", "cuda": "13.0", "python": "3.12.3",
                "versions": {"torch": "2.11.0", "transformers": "5.17.0"}},
    "parts": [
        part("tests", tests={f"{EXACT}[packed-no]": "passed", f"{EXACT}[packed-bf16]": "passed",
                             "test_other": "passed"}),
        part("pretrain, bert-base-128", status="out of time", detail="it was ended after 95"),
        part("pretrain, bert-base-512", race("bert-base-512", "trainer", 3.25, 490_000, 0.29)),
        part("pretrain, modernbert-base-1024",
             race("modernbert-base-1024", "trainer", 2.5, 310_000, 0.2)),
        part("busy", entry("test_the_gpu_is_busy", gpu="NVIDIA H200", busy=0.97)),
        part("preflight", entry("test_preflight_against_what_came", memory=1.6, speed=0.95)),
        part("scoring", status="skipped", detail="could not import 'minicons'"),
        part("pretrain compiled, bert-base-512",
             race("bert-base-512", "trainer compiled", 3.5, 560_000, 0.335))]}


def test_goals_are_listed_with_measured_values() -> None:
    assert list(judge(RECORD)) == [
        ("BERT-base, 128: times Trainer", "3.0 or more", "",
         "not measured: out of time, it was ended after 95"),
        ("BERT-base, 512: times Trainer", "3.0 or more", "3.2", "met"),
        ("ModernBERT-base, 1,024: times Trainer", "3.0 or more", "2.5", "missed"),
        ("BERT-base, 512: useful tokens a second", "500,000 or more on an H200", "560,000", "met"),
        ("BERT-base, 512: share of the card's peak (MFU)", "30% or more", "34%", "met"),
        ("ModernBERT-base, 1,024: useful tokens a second", "304,000 or more on an H100", "310,000",
         "another card"),
        ("share of the time in which the card is busy", "95% or more", "97%", "met"),
        ("score-pppl without start-up: times minicons", "20.0 or more", "",
         "not measured: skipped, could not import 'minicons'"),
        ("preflight: memory forecast, as a share of what came", "1.00 to 1.50", "1.60", "missed"),
        ("preflight: speed forecast, as a share of what came", "0.90 to 1.10", "0.95", "met"),
        ("a killed run resumes with the same bytes (`--set deterministic=true`)", "all cases",
         "2 of 2",
         "met")]


def test_a_resumed_run_with_different_bytes_misses_its_goal() -> None:
    tests = {f"{EXACT}[packed-no]": "AssertionError", f"{EXACT}[packed-bf16]": "passed"}
    *_, found = judge({**RECORD, "parts": [part("tests", tests=tests)]})
    assert found[2:] == ("1 of 2", "missed")
    *_, found = judge({**RECORD, "parts": [part("tests", status="failed", detail="no kernel")]})
    assert found[2:] == ("", "not measured: failed, no kernel")
    *_, found = judge({**RECORD, "parts": []})
    assert found[2:] == ("", "not measured: the part did not run")


def test_the_page_and_the_record_are_written(tmp_path: Path) -> None:
    write_report(RECORD, tmp_path / "out")
    again = json.loads((tmp_path / "out/gpu-check.json").read_text())
    assert markdown(again) == markdown(RECORD)
    text = (tmp_path / "out/gpu-check.md").read_text()
    assert "1 x NVIDIA H200, 139.8 GiB, compute capability 9.0; driver 580.1, CUDA 13.0, " \
        "Python 3.12.3, torch 2.11.0, transformers 5.17.0; 2026-11-22; 8 minutes." in text
    assert "| BERT-base, 512: times Trainer | 3.0 or more | 3.2 | met |" in text
    assert "| scoring | skipped: could not import 'minicons' | 60 | 95 |" in text
    assert "## Benchmarks" in text


@pytest.mark.parametrize(("spans", "share"), [
    ([(0, 10)], 1.0), ([(0, 2), (8, 10)], 0.4), ([(5, 10), (0, 6), (1, 2)], 1.0),
    ([(2, 4), (3, 5), (9, 12), (9, 10)], 0.6)])
def test_share_of_covered_time(spans: list[tuple[float, float]], share: float) -> None:
    assert side.covered(spans) == pytest.approx(share)


class Benchmark:
    """Stand-in for the fixture of pytest-benchmark that calls functions without timing them."""

    disabled, name = False, "stand-in"

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}

    def pedantic(self, work: Callable[..., Any], args: tuple[Any, ...] = (),
                 setup: Callable[[], object] | None = None, rounds: int = 1) -> Any:
        """Call a function as often as the fixture would."""
        for _ in range(min(rounds, 2)):
            if setup:
                setup()
            found = work(*args)
        return found


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend in this process that CUDA has an H200; all computing stays on the CPU."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(
        name="NVIDIA H200", total_memory=139 * 2**30, major=9, minor=0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (130 * 2**30, 139 * 2**30))


@pytest.fixture
def tiny_race(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race models with one or two layers; without a GPU the sides use the CPU.

    Trainer accepts bf16 only on a GPU that supports it, so both sides use float32.
    """
    def side_of(program: str, architecture: str, _length: int, _tokens: int, layout: str,
                dropout: float, _precision: str, *rest: Any) -> Any:
        layers = 2 if architecture.startswith("modern") else 1
        return race_of_sides.Side(program, architecture.replace("base", f"{layers}x64"), 32, 256,
                                  layout, dropout, "no", *rest)

    monkeypatch.setattr(test_bench_pretrain_gpu, "Side", side_of)
    monkeypatch.setattr(test_bench_pretrain_gpu, "_TURN_SECONDS", 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert-base", "modernbert-base"])
def test_the_race_runs_in_a_stand_in(tiny_race: None, architecture: str) -> None:
    benchmark = Benchmark()
    test_bench_pretrain_gpu.test_pretrain_on_a_gpu(benchmark, ("", ""), architecture, 512)
    found = benchmark.extra_info
    assert found["gpu"] == "NVIDIA H200" and not found["failures"]
    assert found["times_faster"]["packed"]["trainer"]["median"] > 0
    assert found["share_of_peak"].keys() == {"packed", "trainer"}


@pytest.mark.slow
@pytest.mark.skipif(not which("g++"), reason="torch.compile needs a compiler")
def test_the_compiled_race_runs_in_a_stand_in(tiny_race: None) -> None:
    benchmark = Benchmark()
    test_bench_pretrain_gpu.test_compiled_pretraining_on_a_gpu(
        benchmark, ("", ""), "bert-base", 512)
    assert "packed compiled" in benchmark.extra_info["share_of_peak"]


@pytest.mark.slow
def test_the_busy_share_is_measured_in_a_stand_in(tiny_race: None,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = Benchmark()
    monkeypatch.setattr(side, "busy_share", partial(
        side.busy_share, activity=ProfilerActivity.CPU, device=DeviceType.CPU))
    test_bench_pretrain_gpu.test_the_gpu_is_busy(benchmark, ("", ""))
    assert 0 < benchmark.extra_info["busy"] <= 1


@pytest.mark.slow
def test_the_preflight_runs_in_a_stand_in(card: None, monkeypatch: pytest.MonkeyPatch,
                                          tmp_path: Path) -> None:
    benchmark = Benchmark()
    monkeypatch.setattr(test_bench_preflight_gpu, "_SETTINGS", {
        "architecture": "bert-1x64", "max_length": 32, "batch_size": 8, "steps": 40})
    made_up = test_bench_preflight_gpu.write_made_up_texts
    monkeypatch.setattr(test_bench_preflight_gpu, "write_made_up_texts",
                        lambda path, _number: made_up(path, 60))
    test_bench_preflight_gpu.test_preflight_against_what_came(benchmark, tmp_path)
    assert benchmark.extra_info["came"]["memory_gib"] == 9
    assert benchmark.extra_info["forecast"]["tokens_per_second"] > 0


@pytest.mark.slow
def test_scoring_runs_in_a_stand_in(card: None, monkeypatch: pytest.MonkeyPatch,
                                    tmp_path: Path) -> None:
    """Uses made-up texts, as if there were no data."""
    benchmark, build = Benchmark(), test_bench_scoring.build
    request = SimpleNamespace(getfixturevalue=lambda _name: pytest.skip("no data"))
    monkeypatch.setattr(test_bench_scoring, "_ON_GPU", 2)
    monkeypatch.setattr(test_bench_scoring, "build", lambda path, texts, *_: build(
        path, texts[:20], 1, 64, 300, 300))
    test_bench_scoring.test_pppl_on_a_gpu(benchmark, request, tmp_path)
    assert benchmark.extra_info["gpu"] == "NVIDIA H200"


@pytest.mark.slow
def test_the_check_runs_in_a_stand_in(card: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    """Runs from the first check to the report, with a part that passes and one that fails."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name, claim in (("passes", True), ("fails", False)):
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    assert {claim}\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_check, "missing_for_cuda", lambda: "")
    monkeypatch.setattr(gpu_check, "parts", lambda: tuple(
        Part(name, (str(tmp_path / f"test_{name}.py"),), 120) for name in ("passes", "fails")))
    assert gpu_check.main(tmp_path / "out") == 1
    assert "gpu-check: passes: passed" in capsys.readouterr().err
    record = json.loads((tmp_path / "out/gpu-check.json").read_text())
    assert record["machine"]["card"] == "NVIDIA H200"
    assert [one["status"] for one in record["parts"]] == ["passed", "failed"]
    assert gpu_check.main(tmp_path / "out", ["none"]) == 1
    assert "no part is called none" in capsys.readouterr().err
