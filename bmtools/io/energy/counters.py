"""Energy counters: RAPL of this machine's processors and memory, NVML of its GPUs."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from bmtools.distributed import world_size
from bmtools.io.system import matching, read_system

SECONDS_BETWEEN_POLLS = 60.0
_DOMAINS = ("package", "dram")


class Rapl:
    """Energy of all processor packages and their memory since the start, in joules.

    The domain of the cores is part of a package, and `psys` contains the packages, so both are
    ignored. Counters return to zero at a maximum, at full load after some minutes. `poll` should be
    called more often than that.

    Attributes:
        joules: energy of the domains `package` and `dram`, without domains that cannot be read.
    """

    def __init__(self) -> None:
        self.joules: dict[str, float] = {}
        self._last: dict[str, int] = {}
        self._domains: dict[str, str] = {}
        for zone in matching("sys/class/powercap/intel-rapl:*"):
            name = read_system(f"{zone}/name")
            domain = next((domain for domain in _DOMAINS if name.startswith(domain)), "")
            if domain and (count := read_system(f"{zone}/energy_uj")).isdigit():
                self._domains[zone], self._last[zone] = domain, int(count)
                self.joules[domain] = 0.0

    def poll(self) -> None:
        """Add the energy counted since the last call."""
        for zone, domain in self._domains.items():
            count = read_system(f"{zone}/energy_uj")
            if not count.isdigit():
                continue
            grown = int(count) - self._last[zone]
            if grown < 0:
                grown += int(read_system(f"{zone}/max_energy_range_uj") or 0)
            self._last[zone] = int(count)
            self.joules[domain] += max(grown, 0) / 1e6


class Gpus:
    """Energy of GPUs since the start, for whole devices with all their processes.

    Attributes:
        by_uuid: NVML handles of GPUs that count energy, and their counts at the start in
            millijoules.
    """

    def __init__(self) -> None:
        self.by_uuid: dict[str, tuple[Any, int]] = {}
        self._nvml: Any = None
        if not matching("dev/nvidia*"):
            return
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # the extra or the driver is missing, so no energy is measured
            return
        self._nvml = pynvml
        for number in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByIndex(number)
                self.by_uuid[pynvml.nvmlDeviceGetUUID(handle)] = \
                    handle, pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)

    def joules(self, uuid: str) -> float | None:
        """Return the energy of a GPU; None if it is unknown or its counter was reset."""
        if uuid in self.by_uuid:
            handle, start = self.by_uuid[uuid]
            with suppress(self._nvml.NVMLError):
                grown = self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - start
                return grown / 1000 if grown >= 0 else None
        return None

    def used(self) -> dict[str, str]:
        """Return the names of the GPUs that this process uses, by UUID.

        torch reports the GPUs on which it has allocated memory; NVML reports GPUs that other
        libraries use. Under a launcher it is the GPU assigned to the process.
        """
        found: dict[str, str] = {}
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            numbers = [cuda.current_device()] if world_size() > 1 else range(cuda.device_count())
            for number in numbers:
                if cuda.memory_stats(number).get("segment.all.allocated"):
                    gpu = cuda.get_device_properties(number)
                    found[f"GPU-{getattr(gpu, 'uuid', number)}"] = gpu.name
        for uuid, (handle, _) in self.by_uuid.items():
            with suppress(self._nvml.NVMLError):
                running = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                if world_size() == 1 and os.getpid() in [process.pid for process in running]:
                    found.setdefault(uuid, self._nvml.nvmlDeviceGetName(handle))
        return found
