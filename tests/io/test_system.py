"""Limits read from files in the format of the operating system."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from bmtools.io.system import usable_cores, usable_memory_bytes

GIB = 2**30


def test_memory_of_a_container_is_its_limit(system: Any) -> None:
    system("proc/self/cgroup", "0::/user/job\n")
    assert usable_memory_bytes() == 64 * GIB
    system("sys/fs/cgroup/user/job/memory.max", "max\n")
    system("sys/fs/cgroup/user/memory.max", f"{12 * GIB}\n")
    assert usable_memory_bytes() == 12 * GIB, "the group around it binds too"
    system("sys/fs/cgroup/user/job/memory.max", f"{3 * GIB}\n")
    assert usable_memory_bytes() == 3 * GIB


def test_a_container_may_see_its_group_as_the_root(system: Any) -> None:
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


def test_the_address_limit_excludes_addresses_reserved_by_libraries(
        system: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (6 * GIB, 6 * GIB))
    system("proc/self/statm", f"{GIB // 4096} {GIB // 2 // 4096} 0 0 0 0 0")
    assert usable_memory_bytes() == 5.5 * GIB
