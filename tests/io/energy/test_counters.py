"""Energy counters: the counters that are read, and their return to zero."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bmtools.io.energy.counters import Gpus, Rapl


def test_packages_and_memory_are_counted_once(rapl: Any) -> None:
    zones = [("0", "package-0"), ("0:0", "core"), ("0:1", "dram"), ("0:2", "uncore"),
             ("1", "package-1"), ("1:1", "dram"), ("2", "psys")]
    for zone, name in zones:
        rapl(zone, name, 1000)
    rapl("0", "package-0", 1000, kind="intel-rapl-mmio")
    counter = Rapl()
    for number, (zone, name) in enumerate(zones):
        rapl(zone, name, 1000 + 10**number * 1_000_000)
    rapl("0", "package-0", 10**9, kind="intel-rapl-mmio")
    counter.poll()
    assert counter.joules == {"package": 1 + 10**4, "dram": 10**2 + 10**5}


def test_counters_that_wrap_equal_an_unlimited_sum(rapl: Any) -> None:
    maximum = 262_143_328_850  # of a real processor, in microjoules
    numbers = random.Random(0)
    steps = [numbers.randrange(maximum) for _ in range(200)]
    true = start = numbers.randrange(maximum)
    rapl("0", "package-0", true, maximum)
    counter = Rapl()
    for step in steps:
        true += step
        rapl("0", "package-0", true % maximum, maximum)
        counter.poll()
    assert counter.joules["package"] == pytest.approx((true - start) / 1e6, rel=1e-12)
    assert true > 50 * maximum


def test_counters_readable_only_by_root_are_absent(system: Any) -> None:
    system("sys/class/powercap/intel-rapl:0/name", "package-0")  # energy_uj cannot be read
    counter = Rapl()
    counter.poll()
    assert counter.joules == {}


def test_only_gpus_in_use_are_measured(gpus: Any) -> None:
    nvml = gpus({"GPU-a": 5_000, "GPU-b": 7_000}, used=[1])
    counter = Gpus()
    nvml.millijoules |= {"GPU-a": 905_000, "GPU-b": 19_000}
    assert counter.used() == {"GPU-b": "NVIDIA A100"}
    assert counter.joules("GPU-b") == 12.0
    nvml.millijoules["GPU-b"] = 10  # the driver was reloaded
    assert counter.joules("GPU-b") is None


def test_gpus_used_by_other_libraries_than_torch(gpus: Any,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = gpus({"GPU-a": 0, "GPU-b": 0}, used=[])
    monkeypatch.setattr("os.getpid", lambda: 77)
    nvml.running = {"GPU-a": [12, 77], "GPU-b": [12]}
    assert Gpus().used() == {"GPU-a": "NVIDIA GPU-a"}


def test_a_launched_process_counts_only_its_gpu(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus({"GPU-a": 0, "GPU-b": 0}, used=[1, 0])
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert [*Gpus().used()] == ["GPU-b"]


def test_no_gpu_is_measured_without_a_driver(system: Any) -> None:
    system("dev/nvidia0", "")
    counter = Gpus()
    assert counter.by_uuid == {} and counter.joules("GPU-a") is None
