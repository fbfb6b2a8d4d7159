"""Limits read from files as systems write them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bmtools.io import machine
from bmtools.io.machine import usable_cores, usable_memory_bytes

GIB = 2**30


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A root of a file system: `system("proc/self/cgroup", text)` writes a file of it."""
    monkeypatch.setattr(machine, "_SYSTEM", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**24}.get)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def test_memory_of_a_container_is_its_limit(system: Any) -> None:
    system("proc/self/cgroup", "0::/user/job\n")
    assert usable_memory_bytes() == 64 * GIB
    system("sys/fs/cgroup/user/job/memory.max", "max\n")
    system("sys/fs/cgroup/user/memory.max", f"{12 * GIB}\n")
    assert usable_memory_bytes() == 12 * GIB, "the group around it binds too"
    system("sys/fs/cgroup/user/job/memory.max", f"{3 * GIB}\n")
    assert usable_memory_bytes() == 3 * GIB


def test_a_container_that_is_its_own_root(system: Any) -> None:
    system("proc/self/cgroup", "0::/\n")
    system("sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    system("sys/fs/cgroup/cpu.max", "250000 100000\n")
    assert (usable_memory_bytes(), usable_cores()) == (2 * GIB, 2)


def test_limits_of_the_older_control_groups(system: Any) -> None:
    system("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n")
    system("sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{5 * GIB}\n")
    system("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    system("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n")
    system("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    system("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert (usable_memory_bytes(), usable_cores()) == (5 * GIB, 1)
