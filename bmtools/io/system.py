"""System: signals, and the cores and memory that a process may use within its containers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Ctrl-C, a lost terminal, a scheduler's SIGTERM and its warning.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1)
_SYSTEM = Path("/")


def usable_cores() -> int:
    """Count the cores that this process may run on: its share, where a container limits it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") \
        else os.cpu_count() or 1
    for directory in _control_groups("cpu"):
        quota, _, period = read_system(directory / "cpu.max").partition(" ")
        if not quota:
            quota = read_system(directory / "cpu.cfs_quota_us")
            period = read_system(directory / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def usable_memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, or less where it is limited."""
    found = [read_system(directory / name) for directory in _control_groups("memory")
             for name in ("memory.max", "memory.limit_in_bytes")]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(int(limit) for limit in found if limit.isdigit())])


@contextmanager
def handling_signals(numbers: Iterable[int], handle: Callable[[int], None]) -> Iterator[None]:
    """Call a function with each signal of some numbers, but for those that the caller ignores.

    Does nothing outside of the main thread, where Python cannot receive signals.
    """
    before = {}
    with suppress(ValueError):  # not in the main thread
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:  # by nohup
                before[number] = signal.signal(number, lambda number, _frame: handle(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Let signals that end a process wait for the end of a block that must not be left halfway."""
    found: list[int] = []
    try:
        with handling_signals(ENDING_SIGNALS, found.append):
            yield
    finally:
        for number in found:
            signal.raise_signal(number)


def read_system(name: str | Path) -> str:
    """Read a file of the system, such as `proc/cpuinfo`; empty where there is none."""
    try:
        return (_SYSTEM / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def exists(pattern: str) -> bool:
    """Tell whether the system has a file whose name matches, such as `dev/nvidia*`."""
    return next(_SYSTEM.glob(pattern), None) is not None


def matching(pattern: str) -> list[str]:
    """List the system's files whose names match, as `read_system` takes them."""
    return sorted(str(path.relative_to(_SYSTEM)) for path in _SYSTEM.glob(pattern))


def _control_groups(controller: str) -> list[Path]:
    """List the control groups that bind this process, its own and those around it.

    A container often sees its own group as the root, so the path that Linux names may be absent;
    the root is looked at in any case.
    """
    root = _SYSTEM / "sys/fs/cgroup"
    found = []
    for line in read_system("proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            top = root if number == "0" else root / controller
            own = top / path.strip("/")
            found += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return found or [root]
