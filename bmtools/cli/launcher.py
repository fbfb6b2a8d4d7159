"""Launcher: one command in several processes of this machine that looks like one process.

It prints one line for an error and returns one exit code; signals reach all processes, and none
outlives the others. Accelerate's launcher would end an error with its own traceback, and kill a
process that saves its state.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import click

from bmtools.cli.main import STOPPED
from bmtools.cli.progress import Display
from bmtools.distributed import SUPERVISED, is_launched
from bmtools.io.system import ENDING_SIGNALS, handling_signals, usable_cores
from bmtools.training.signals import REPEAT_SECONDS

_POLL_SECONDS = 0.1
# A process that loses its peer complains too; lines are held until the first failure is known.
_GRACE_SECONDS = 0.5
_SECONDS_TO_EXIT = 60.0
_SECONDS_TO_LEAVE = 1.0
_INTERRUPTED = 130
_UNEXPECTED = b"bmtools: unexpected "


def run_processes(processes: int, arguments: Sequence[str],
                  program: Sequence[str] = (sys.executable, "-m", "bmtools")) -> int:
    """Run a program in several processes at once and return one exit code for all of them.

    Args:
        processes: how many.
        arguments: of each.
        program: the command line before the arguments.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    defaults = {"OMP_NUM_THREADS": str(max(usable_cores() // processes, 1))}
    if sys.platform == "linux":
        # The host's own name may not resolve where there is no network.
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    environment = {
        **os.environ, **{name: os.environ.get(name) or value for name, value in defaults.items()},
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes), SUPERVISED: "1"}
    workers = [_Worker(rank, [*program, *arguments], environment) for rank in range(processes)]
    try:
        with _forwarding_signals(workers) as signals:
            failed = _wait(workers, signals)
    finally:
        for worker in workers:
            worker.kill()
    code = workers[0].exit_code or 0 if failed is None else \
        _report_failure(failed, workers, signals.sent, "--traceback" in arguments)
    return code if signals.left_at is None else _INTERRUPTED


def launch(display: Display | None, processes: int) -> None:
    """Run this command in several processes and exit, unless it is one of them already.

    Raises:
        click.exceptions.Exit: with the exit code of all of them.
    """
    if processes > 1 and not is_launched():
        if display is not None:
            display.close()  # the main process has its own, in lines
        raise click.exceptions.Exit(run_processes(processes, sys.argv[1:]))

    def exit_with_launcher() -> None:
        """Exit once the launcher is gone, even if it was killed: it holds the end of stdin."""
        while os.read(0, 1):
            pass
        os._exit(1)

    if os.environ.get(SUPERVISED) == "1":
        threading.Thread(target=exit_with_launcher, daemon=True).start()


class _Worker:
    """One of the processes; its stderr is read here, its stdout is the launcher's own."""

    def __init__(self, rank: int, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.rank = rank
        self._lines: list[tuple[float, bytes]] = []
        self._printed = 0
        # A session of its own, so that Ctrl-C arrives once, from here.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        with self.process.stderr as stream:
            for line in stream:
                self._lines.append((time.monotonic(), line))

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.poll()

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error."""
        return self.exit_code not in (None, 0, STOPPED)

    @property
    def last_line_at(self) -> float:
        """Time of its last line; 0 where it was killed or wrote nothing."""
        self._reader.join(_GRACE_SECONDS)
        return self._lines[-1][0] if self._lines and (self.exit_code or 0) >= 0 else 0.0

    def failure_order(self) -> tuple[bool, float]:
        """Sort key that is least for the process whose failure caused the others': one that was
        killed, then one with an error of ours before an unexpected one, then the earliest."""
        last = self.last_line_at
        return last > 0 and self._lines[-1][1].startswith(_UNEXPECTED), last

    def kill(self) -> None:
        """Kill it if it still runs, and release its pipes."""
        self.process.kill()
        self.process.wait()
        self._reader.join(_GRACE_SECONDS)
        assert self.process.stdin
        self.process.stdin.close()

    def print_lines(self, before: float) -> None:
        """Print the lines that it wrote before a moment."""
        while self._printed < len(self._lines) and self._lines[self._printed][0] <= before:
            sys.stderr.buffer.write(self._lines[self._printed][1])
            self._printed += 1
        sys.stderr.buffer.flush()

    def print_rest(self) -> None:
        """Print all lines that are left."""
        self._reader.join(_GRACE_SECONDS)
        self.print_lines(float("inf"))

    def print_last(self, main: _Worker) -> None:
        """Print the last line alone, unless the main process has printed the same."""
        if all(line != self._lines[-1][1] for _, line in main._lines[:main._printed]):
            self._printed = len(self._lines) - 1
            self.print_lines(float("inf"))


def _report_failure(failed: _Worker, workers: Sequence[_Worker], signals: Sequence[int],
                    traceback: bool) -> int:
    """Print why a process failed, unless the main process printed it already.

    Returns:
        the exit code.
    """
    code = failed.exit_code or 0
    if code < 0 and -code in signals:
        return 128 - code
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        sys.stderr.write(f"bmtools: process {failed.rank + 1} of {len(workers)} was ended by "
                         f"{name}{hint}\n")
        return 1
    if failed is workers[0] or traceback or not failed.last_line_at:
        failed.print_rest()
    else:
        failed.print_last(workers[0])
    return code


def _wait(workers: Sequence[_Worker], signals: _Signals) -> _Worker | None:
    """Wait until all have ended or one has failed; print the main process's lines meanwhile.

    A second Ctrl-C ends the wait after a moment, in which they can clean up.

    Returns:
        the process whose failure came first, if one failed.
    """
    main = workers[0]
    done_at: float | None = None
    while any(worker.exit_code is None for worker in workers):
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        if signals.left_at is not None and now - signals.left_at > _SECONDS_TO_LEAVE:
            main.print_rest()
            return None
        if main.exit_code in (0, STOPPED):
            # The results are written; the others have only to exit.
            done_at = done_at or now
            if now - done_at > _SECONDS_TO_EXIT:
                break
        elif any(worker.has_failed for worker in workers):
            break
        main.print_lines(now - _GRACE_SECONDS)
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and any(worker.exit_code is None for worker in workers):
        time.sleep(_POLL_SECONDS)
    failed = [worker for worker in workers if worker.has_failed]
    if main.exit_code in (0, STOPPED) or not failed:
        main.print_rest()
        return None
    first = min(failed, key=_Worker.failure_order)
    if first is not main:
        # Later lines of the main process are about the same failure, or about its consequences.
        main.print_lines(first.last_line_at - _GRACE_SECONDS)
    return first


@dataclass
class _Signals:
    """Signals that were forwarded.

    Args:
        sent: their numbers, in order.
        first_at: time of the first one that asks to stop.
        left_at: time of a Ctrl-C after it.
    """

    sent: list[int] = field(default_factory=list)
    first_at: float | None = None
    left_at: float | None = None


@contextmanager
def _forwarding_signals(workers: Sequence[_Worker]) -> Iterator[_Signals]:
    """Forward signals to all processes; gives those that were sent."""
    signals = _Signals()

    def forward(number: int) -> None:
        now = time.monotonic()
        if signals.first_at is None:
            signals.first_at = now
        elif number == signal.SIGINT and now - signals.first_at > REPEAT_SECONDS:
            signals.left_at = signals.left_at or now
        signals.sent.append(number)
        for worker in workers:
            worker.process.send_signal(number)

    with handling_signals(ENDING_SIGNALS, forward):
        yield signals
