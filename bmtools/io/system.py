"""Signals that end a process, and the cores and memory that it may use in a container."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Ctrl-C, a lost terminal, and a scheduler's SIGTERM and its warning.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1)
# Programs such as uv forward a Ctrl-C that the terminal has already sent.
REPEAT_SECONDS = 0.2
STOPPED = 75
"""Exit code of a run that stopped early and can be resumed: EX_TEMPFAIL in `sysexits.h`."""
_ENDING = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
_INTERRUPTED = 130
_UNNOTICED_SECONDS, _CLEAN_UP_SECONDS = 0.5, 5.0
_SYSTEM = Path("/")


class Ended(BaseException):
    """A signal that ends the command.

    Args:
        number: number of the signal; all except SIGTERM and SIGHUP are treated as Ctrl-C.
        left: text that describes the unfinished work.
    """

    def __init__(self, number: int, left: str = "") -> None:
        word = _ENDING.get(signal.Signals(number), "interrupted")
        super().__init__(f"{word}: {left}" if left else word)
        self.number = number
        self.exit_code = 128 + number if number in _ENDING else _INTERRUPTED


class Interruption:
    """Signal that was sent to this process and has not ended it yet.

    The handler only sets `number`, because Python drops an exception that is raised inside a
    destructor. Work that reports its status calls `check`, and so do writers before they rename a
    file. If nothing calls it for half a second, as in a read that waits for a pipe, a timer sends
    the signal again, and only then the handler raises. A second signal ends the process
    immediately.

    A process has one set of signal handlers and therefore one instance of this class. A thread, or
    a function called from Python without the command line, never sees a signal here.
    """

    def __init__(self) -> None:
        self.number = 0
        self._received_at = 0.0
        self._is_overdue = False
        self._timer: threading.Timer | None = None

    def receive(self, number: int) -> None:
        """Handle a signal."""
        if self._is_overdue:
            self._is_overdue = False
            self._remind(_CLEAN_UP_SECONDS)
            raise Ended(self.number)
        now = time.monotonic()
        if not self.number:
            self.number, self._received_at = number, now
            self._remind(_UNNOTICED_SECONDS)
        elif now - self._received_at > REPEAT_SECONDS:
            os._exit(Ended(number).exit_code)

    def check(self) -> None:
        """Raise `Ended` if a signal was received; does nothing outside the main thread."""
        if self.number and threading.current_thread() is threading.main_thread():
            self._remind(_CLEAN_UP_SECONDS)
            raise Ended(self.number)

    def clear(self) -> None:
        """Forget the signal: the command has ended, or saves its state first."""
        if self._timer is not None:
            self._timer.cancel()
        self.number, self._timer, self._is_overdue = 0, None, False

    def _remind(self, seconds: float) -> None:
        """Send the signal again after some time, unless it is cleared before."""
        if self._timer is not None:
            self._timer.cancel()

        def send() -> None:
            self._is_overdue = True
            os.kill(os.getpid(), self.number)

        self._timer = threading.Timer(seconds, send)
        self._timer.daemon = True
        self._timer.start()


interruption = Interruption()


def usable_cores() -> int:
    """Count the cores that this process may use, including a container's limit."""
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
    """Return the memory that this process may use, including limits below the machine's memory."""
    found = [read_system(directory / name) for directory in _control_groups("memory")
             for name in ("memory.max", "memory.limit_in_bytes")]
    page = os.sysconf("SC_PAGE_SIZE")
    limits = [page * os.sysconf("SC_PHYS_PAGES"), *map(int, filter(str.isdigit, found))]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)  # ulimit -v
    if addresses != resource.RLIM_INFINITY:
        # Libraries reserve addresses for far more memory than they use.
        size, resident = [*map(int, read_system("proc/self/statm").split()), 0, 0][:2]
        limits.append(max(addresses - page * (size - resident), page))
    return min(limits)


@contextmanager
def handling_signals(numbers: Iterable[int], handle: Callable[[int], None]) -> Iterator[None]:
    """Call a function for each of these signals, except for signals that the caller ignores.

    Has no effect outside the main thread, because Python handles signals only there.
    """
    before = {}
    with suppress(ValueError):  # not in the main thread
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored under nohup
                before[number] = signal.signal(number, lambda number, _frame: handle(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Delay ending signals until the end of a block that must be completed."""
    found: list[int] = []
    try:
        with handling_signals(ENDING_SIGNALS, found.append):
            yield
    finally:
        for number in found:
            signal.raise_signal(number)


def read_system(name: str | Path) -> str:
    """Read a file of the system, such as `proc/cpuinfo`; empty if it does not exist."""
    try:
        return (_SYSTEM / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def matching(pattern: str) -> list[str]:
    """List the system's files whose names match a pattern, as names for `read_system`."""
    return sorted(str(path.relative_to(_SYSTEM)) for path in _SYSTEM.glob(pattern))


def _control_groups(controller: str) -> list[Path]:
    """List the control groups that limit this process: its own and the groups around it.

    A container often sees its own group as the root, so the path in `/proc` may be absent. The root
    is always included.
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
