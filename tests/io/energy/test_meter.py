"""The meter: separate kinds, shares of shared machines, sums of sessions and processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bmtools.io.energy import meter
from bmtools.io.energy.meter import Meter
from bmtools.io.passes import ResumableRun
from bmtools.io.step import Step

KWH = 3_600_000_000_000  # microjoules


@pytest.fixture
def machine(rapl: Any, gpus: Any, clock: Any) -> Any:
    """Make a machine with counters of two packages and with two GPUs, one of them in use."""
    rapl("0", "package-0", 0)
    rapl("0:0", "dram", 0)
    nvml = gpus({"GPU-a": 0, "GPU-b": 0}, used=[0])

    def work(hours: float, cpu_hours: float, package: float, dram: float, gpu: float) -> None:
        clock.seconds += hours * 3600
        clock.cpu_seconds += cpu_hours * 3600
        rapl("0", "package-0", int(package * KWH), 10**20)
        rapl("0:0", "dram", int(dram * KWH), 10**20)
        nvml.millijoules |= {"GPU-a": int(gpu * KWH / 1000), "GPU-b": 10**15}

    return work


def test_energy_is_not_measured_outside_the_block() -> None:
    step = Step()
    assert step.energy() == {}
    with step.metered():
        outer = step.meter
        with step.metered():
            assert step.meter is outer, "work inside a metered step is metered once"
        assert step.energy()["hours"] >= 0
    assert step.energy() == {}


def test_measured_is_for_devices_and_allotted_for_shares(machine: Any) -> None:
    with Meter() as work:
        machine(hours=2, cpu_hours=1, package=0.4, dram=0.2, gpu=1.0)
        found = work.total()
    assert found["hardware"] == "NVIDIA A100, Test CPU (4 cores)"
    assert found["measured"] == {"kwh": 1.6, "by": ["nvml", "rapl"], "gpu_kwh": 1.0,
                                 "cpu_kwh": 0.6, "hours": 2.0}
    # One core hour of eight, half of the memory, and the whole GPU.
    own = 1 + 0.4 / 8 + 0.2 / 2
    assert found["allotted"] == {"kwh": round(own, 6), "of": "measured", "hours": 2.0,
                                 "share": round(own / 1.6, 6)}
    assert found.keys() >= {"hours", "gpu_hours"} and "declared" not in found
    assert (found["gpu_hours"], found["cpu_hours"], found["machine_cpu_hours"]) == (2, 1, 8)
    assert "kg_co2eq" not in found, "without a grid there are no emissions"


def test_declared_values_are_added_to_measured_values(machine: Any,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMTOOLS_POWER_WATTS", "300")
    monkeypatch.setenv("BMTOOLS_GRID_G_PER_KWH", "250")
    monkeypatch.setenv("BMTOOLS_PUE", "1.2")
    with Meter() as work:
        machine(hours=2, cpu_hours=1, package=0.4, dram=0.2, gpu=0)
        found = work.total()
    assert found["declared"] == {"kwh": 0.6, "watts": 300, "hours": 2}
    assert found["measured"]["kwh"] == 0.6
    assert found["grid"] == {"g_per_kwh": 250, "source": "declared"}
    assert found["kg_co2eq"] == {"measured": 0.18, "allotted": 0.045, "declared": 0.18}


def test_a_share_of_the_declared_power_is_allotted(clock: Any, system: Any,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMTOOLS_POWER_WATTS", "400")
    with Meter() as work:
        clock.seconds += 3600
        clock.cpu_seconds += 1800
        found = work.total()
    assert "measured" not in found
    assert found["declared"]["kwh"] == 0.4
    assert found["allotted"] == {"kwh": 0.05, "hours": 1.0, "of": "declared", "share": 0.125}


def test_no_share_of_declared_power_is_allotted_with_a_gpu(clock: Any, gpus: Any,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMTOOLS_POWER_WATTS", "400")
    nvml = gpus({"GPU-a": 0}, used=[0])
    nvml.millijoules.clear()  # NVML lists no GPU, for example only a slice of one (MIG)
    with Meter() as work:
        clock.seconds += 3600
        found = work.total()
    assert found["gpu_hours"] == 1 and found["declared"]["kwh"] == 0.4
    assert not found.keys() & {"measured", "allotted"}


def test_sessions_add_up(machine: Any) -> None:
    with Meter() as work:
        machine(hours=2, cpu_hours=1, package=0.4, dram=0.2, gpu=0)
        first = work.total()
    with Meter() as work:
        work.resume(first)
        machine(hours=1, cpu_hours=1, package=0.7, dram=0.4, gpu=0)
        both = work.total()
    assert (both["hours"], both["cpu_hours"]) == (3, 2)
    assert both["measured"]["kwh"] == pytest.approx(1.1)
    assert both["measured"]["hours"] == 3
    assert both["allotted"]["kwh"] == pytest.approx(0.05 + 0.1 + 0.3 / 4 + 0.1, rel=1e-5)


def test_a_killed_pass_keeps_its_energy(clock: Any, tmp_path: Path) -> None:
    for session in (1, 2, 3):
        step = Step()
        with step.metered():
            run = ResumableRun(str(tmp_path / "out.jsonl"), step)
            run.begin({"lang": "it"})
            clock.seconds += 3600
            run.stage("second" if session == 3 else "first").commit(session, "hash", {})
            clock.seconds += 36000  # lost
            last = step.energy()
    assert last["hours"] == 1 + 1 + 11
    with step.metered():
        ResumableRun(str(tmp_path / "out.jsonl"), step).begin({"lang": "it"})
        assert (step.energy()["hours"], step.energy()["run"]) == (3, last["run"])


def test_a_session_without_counters_is_not_measured(machine: Any, monkeypatch: Any) -> None:
    with Meter() as work:
        machine(hours=2, cpu_hours=1, package=0.4, dram=0.2, gpu=0)
        first = work.total()
    monkeypatch.setattr("bmtools.io.energy.meter.Rapl.__init__",
                        lambda self: vars(self).update(joules={}, _domains={}))
    monkeypatch.setattr("bmtools.io.energy.meter.Gpus.__init__",
                        lambda self: vars(self).update(by_uuid={}))
    with Meter() as work:
        work.resume(first)
        machine(hours=3, cpu_hours=1, package=0.7, dram=0.4, gpu=0)
        both = work.total()
    assert (both["hours"], both["measured"]["hours"], both["measured"]["kwh"]) == (5, 2, 0.6)


def test_processes_of_two_machines(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process counts its GPU, each machine its counters once, and hours are counted once."""
    monkeypatch.setenv("BMTOOLS_POWER_WATTS", "1000")
    found: list[dict[str, Any]] = []
    for rank in (3, 2, 1, 0):
        monkeypatch.setenv("WORLD_SIZE", "4")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank % 2))
        machine(hours=0, cpu_hours=0, package=0, dram=0, gpu=0)
        with Meter() as work:
            machine(hours=2, cpu_hours=1, package=0.4, dram=0.2, gpu=1)
            work.gather(lambda own: [*own, *reversed(found)])
            found.append(work.own())
            total = work.total()
    assert (total["hours"], total["gpu_hours"], total["cpu_hours"]) == (2, 8, 4)
    assert total["measured"]["kwh"] == pytest.approx(4 * 1 + 2 * 0.6)
    assert total["allotted"]["kwh"] == pytest.approx(4 * (1 + 0.4 / 8 + 0.1))
    assert total["declared"] == {"kwh": 4.0, "watts": 1000, "hours": 4}
    assert total["hardware"] == "NVIDIA A100, Test CPU (4 cores)"


def test_background_polls_detect_counters_that_wrap(rapl: Any, system: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "SECONDS_BETWEEN_POLLS", 0.001)
    rapl("0", "package-0", 0, 100_000_000)
    with Meter() as work:
        counter = work._rapl
        for microjoules, expected in ((90, 90), (80, 180), (70, 270)):
            system("sys/class/powercap/intel-rapl:0/energy_uj", str(microjoules * 1_000_000))
            deadline = time.monotonic() + 20
            while counter.joules["package"] < expected and time.monotonic() < deadline:
                time.sleep(0.001)
        assert counter.joules["package"] == pytest.approx(270)


@pytest.mark.parametrize(("variable", "value", "expected"), [
    ("BMTOOLS_POWER_WATTS", "a lot", "found 'a lot', expected a number"),
    ("BMTOOLS_POWER_WATTS", "nan", "found nan, expected 1 or more"),
    ("BMTOOLS_PUE", "0.9", "found 0.9, expected 1 or more"),
    ("BMTOOLS_COUNTRY", "it", "did you mean 'ITA'?")])
def test_invalid_declared_values_stop_a_command_immediately(run: Any, write_lines: Any,
                                                            monkeypatch: pytest.MonkeyPatch,
                                                            variable: str, value: str,
                                                            expected: str) -> None:
    monkeypatch.setenv(variable, value)
    outcome = run("describe", write_lines("notes.jsonl", {"id": "1", "text": "Asma."}))
    assert outcome.code == 2 and outcome.out == ""
    assert f"bmtools: {variable}: " in outcome.err and expected in outcome.err
