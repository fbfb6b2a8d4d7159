"""Meter of this process: hours, energy of the devices it uses, and its share of this energy.

RAPL counts the energy of whole machines and NVML of whole GPUs, with all their processes; this is
`measured`. `allotted` is the share of this process: all energy of its GPUs, its share of cores and
time for the processors, and its share of bytes for the memory.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Self

from bmtools.distributed import is_main_process, local_rank, local_world_size, world_size
from bmtools.io.energy.counters import SECONDS_BETWEEN_POLLS, Gpus, Rapl
from bmtools.io.energy.figures import add, declare, rounded
from bmtools.io.energy.settings import EnergyConfig, from_environment
from bmtools.io.system import read_system
from bmtools.records import JsonObject

_JOULES_PER_KWH = 3.6e6
_KILOBYTE = 1 if sys.platform == "darwin" else 1024  # unit of the peak memory in bytes


class Meter:
    """Counters from the start of the work to the end of a `with` block.

    Args:
        config: declared values; by default the values in environment variables.

    Raises:
        ValueError: an environment variable declares an invalid value.

    Attributes:
        earlier: values of earlier sessions.
        others: values of other processes.
        run: identifier of the work in all its energy values, in every output.
    """

    def __init__(self, config: EnergyConfig | None = None) -> None:
        self.earlier: JsonObject = {}
        self.others: list[JsonObject] = []
        self.run = os.urandom(8).hex()
        self._config = config or from_environment()
        self._year = datetime.now(UTC).year
        self._began, self._cpu_began = time.monotonic(), _cpu_seconds()
        self._gpus, self._rapl = Gpus(), Rapl()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if self._rapl.joules:
            threading.Thread(target=self._keep_polling, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()  # stops the background thread

    def resume(self, earlier: JsonObject) -> None:
        """Add the values of a run's earlier sessions to this session's values."""
        if is_main_process():
            self.earlier, self.run = earlier, earlier.get("run", self.run)

    def gather(self, all_gather: Callable[[list[JsonObject]], list[JsonObject]]) -> None:
        """Add the values of the launcher's other processes; every process must call this.

        Args:
            all_gather: returns the joined lists of all processes in the order of their ranks.
        """
        if world_size() > 1:
            others = all_gather([self.own()])
            self.others = others[1:] if is_main_process() else []

    def total(self) -> JsonObject:
        """Return the values of all sessions and processes, including declared values.

        Keys: `run`, equal in all outputs of one work; `hours` of the clock; `gpu_hours`;
        `cpu_hours` of this work; `machine_cpu_hours` of all cores; `hardware`. Optional:
        `measured`, `allotted`, `declared`, `grid`, `pue`, and `kg_co2eq` by kind; `machine_hours`
        if several machines work.
        """
        session = add([self.own(), *self.others])
        done = declare(session, self._config, self._year)
        return {"run": self.run, **add([self.earlier, done])}

    def own(self) -> JsonObject:
        """Return the values of this process and its children that have ended.

        Only the first process of a machine counts the machine's energy.
        """
        with self._lock:
            self._rapl.poll()
        seconds = max(time.monotonic() - self._began, 1e-9)
        cores, cpu_seconds = os.cpu_count() or 1, _cpu_seconds() - self._cpu_began
        used = self._gpus.used()
        found = {"cpu_hours": cpu_seconds / 3600}
        if used:
            found["gpu_hours"] = len(used) * seconds / 3600
        if local_rank() == 0:
            found["machine_cpu_hours"] = cores * seconds / 3600
            found |= {"machine_hours": seconds / 3600} if local_world_size() < world_size() else {}
        if is_main_process():
            found["hours"] = seconds / 3600
        figures: JsonObject = {name: rounded(value) for name, value in found.items()}
        for name, kind in self._energy(used, min(cpu_seconds / (cores * seconds), 1)).items():
            figures[name] = {**kind, "hours": figures.get("hours", 0)}
        return {**figures, "hardware": _hardware(used)}

    def _energy(self, used: Mapping[str, str], cpu_share: float) -> dict[str, JsonObject]:
        """Return the measured energy, and the share of this process."""
        joules = [self._gpus.joules(uuid) for uuid in used]
        counted = [one for one in joules if one is not None]
        by = ["nvml"] if counted and len(counted) == len(used) else []
        package, memory = (self._rapl.joules.get(name, 0.0) for name in ("package", "dram"))
        gpu = sum(counted) if by else 0.0
        cpu = package + memory if local_rank() == 0 else 0.0
        by += ["rapl"] if self._rapl.joules else []
        if not by:
            return {}
        parts = {"gpu_kwh": gpu, "cpu_kwh": cpu}
        own = gpu + cpu_share * package + _memory_share() * memory
        return {"measured": {"kwh": _kwh(gpu + cpu), "by": by,
                             **{name: _kwh(one) for name, one in parts.items() if one}},
                "allotted": {"kwh": _kwh(own), "of": "measured"}}

    def _keep_polling(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_POLLS):
            with self._lock:
                self._rapl.poll()


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _memory_share() -> float:
    """Return the peak memory of this process and its largest child as a share of all memory."""
    peak = sum(resource.getrusage(whose).ru_maxrss
               for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(peak * _KILOBYTE / machine, 1)


def _hardware(used: Mapping[str, str]) -> str:
    """Describe the processor and the GPUs in use."""
    lines = read_system("proc/cpuinfo").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines
                  if line.startswith("model name")), "") or os.uname().machine
    return ", ".join([*dict.fromkeys(used.values()),
                      f"{' '.join(model.split())} ({os.cpu_count()} cores)"])


def _kwh(joules: float) -> float:
    return rounded(joules / _JOULES_PER_KWH)
