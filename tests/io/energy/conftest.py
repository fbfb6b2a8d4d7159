"""Stand-ins for the counters of a machine: RAPL as files, NVML and torch as modules."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bmtools.io.energy import meter
from bmtools.io.energy.settings import VARIABLES


class Clock:
    """Clock and processor time that only advance when a test moves them."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.cpu_seconds = 5.0


class Nvml:
    """GPUs as the module `pynvml` reports them.

    Args:
        millijoules: value of each GPU's counter.
    """

    class NVMLError(Exception):
        """A value that NVML cannot report."""

    def __init__(self, millijoules: dict[str, int]) -> None:
        self.millijoules = millijoules
        self.running: dict[str, list[int]] = {}

    def nvmlInit(self) -> None:
        """Do nothing."""

    def nvmlDeviceGetCount(self) -> int:
        return len(self.millijoules)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> str:
        return list(self.millijoules)[number]

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return f"NVIDIA {handle}"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self.millijoules[handle]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.running.get(handle, [])]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove declared values from the environment."""
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock(system: Any, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of a machine with four cores."""
    clock = Clock()
    system("proc/cpuinfo", "model name\t: Test  CPU\n" * 4)
    monkeypatch.setattr("bmtools.io.energy.meter.time.monotonic", lambda: clock.seconds)
    monkeypatch.setattr(meter, "_cpu_seconds", lambda: clock.cpu_seconds)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(meter, "_memory_share", lambda: 0.5)
    return clock


@pytest.fixture
def gpus(system: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make GPUs and return their `pynvml`: `gpus({"GPU-a": 100, "GPU-b": 0}, used=[0])`."""

    def make(millijoules: dict[str, int], used: list[int]) -> Nvml:
        nvml, names = Nvml(millijoules), list(millijoules)
        cuda = SimpleNamespace(
            is_initialized=lambda: True, device_count=lambda: len(names),
            current_device=lambda: used[0],
            memory_stats=lambda number: {"segment.all.allocated": int(number in used)},
            get_device_properties=lambda number: SimpleNamespace(
                uuid=names[number].removeprefix("GPU-"), name="NVIDIA A100"))
        system("dev/nvidia0", "")
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        return nvml

    return make


@pytest.fixture
def rapl(system: Any) -> Any:
    """Set a zone of RAPL: `rapl("0:1", "dram", microjoules, maximum)`."""

    def write(zone: str, name: str, microjoules: int, maximum: int = 10**12,
              kind: str = "intel-rapl") -> None:
        for file, value in (("name", name), ("energy_uj", microjoules),
                            ("max_energy_range_uj", maximum)):
            system(f"sys/class/powercap/{kind}:{zone}/{file}", f"{value}\n")

    return write
