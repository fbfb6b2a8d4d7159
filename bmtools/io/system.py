"""Cores and memory that a process may use, as the system and its containers limit it."""

from __future__ import annotations

import os
from pathlib import Path

_SYSTEM = Path("/")


def usable_cores() -> int:
    """Count the cores that this process may run on: its share, where a container limits it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") \
        else os.cpu_count() or 1
    for directory in _control_groups("cpu"):
        share = _cores_granted(directory)
        if share is not None:
            cores = min(cores, max(1, int(share)))
    return cores


def usable_memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, or less where it is limited."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for directory in _control_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(directory / name)
            if limit.isdigit():
                limits.append(int(limit))
    return min(limits)


def read_system(name: str) -> str:
    """Read a file of the system, such as `proc/cpuinfo`; empty where there is none."""
    return _read(_SYSTEM / name)


def _cores_granted(directory: Path) -> float | None:
    quota, _, period = _read(directory / "cpu.max").partition(" ")
    if not quota:
        quota = _read(directory / "cpu.cfs_quota_us")
        period = _read(directory / "cpu.cfs_period_us")
    if not (quota.isdigit() and period.isdigit()):
        return None
    return int(quota) / int(period)


def _control_groups(controller: str) -> list[Path]:
    """List the control groups that bind this process, its own and those around it.

    A container often sees its own group as the root, so the path that Linux names may be absent;
    the root is looked at in any case.
    """
    root = _SYSTEM / "sys/fs/cgroup"
    found = []
    for line in _read(_SYSTEM / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or controller in controllers.split(","):
            top = root if number == "0" else root / controller
            own = top / path.strip("/")
            found += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return found or [root]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
