"""A command run as several processes of this machine, that looks like one from outside.

One line for an error, one exit code; signals reach all of them, and none outlives the others.
Accelerate's launcher would end an error with its own traceback, and kill what saves a state.
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
from typing import Any

import click

from bmtools.distributed import is_launched
from bmtools.io.system import usable_cores

STOPPED = 75
"""Exit code of a run that was told to stop and can go on: `sysexits.h` calls it EX_TEMPFAIL."""
SUPERVISED = "BMTOOLS_SUPERVISED"
"""Variable of the environment that tells a process it has a supervisor."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_SECONDS_BETWEEN_LOOKS = 0.1
# A process that loses its peer complains too; lines wait until it is known who failed first.
_SECONDS_HELD_BACK = 0.5
_SECONDS_TO_FOLLOW = 60.0
_SURPRISE = b"bmtools: unexpected "


def run_processes(processes: int, arguments: Sequence[str],
                  program: Sequence[str] = (sys.executable, "-m", "bmtools")) -> int:
    """Run a program several times at once and give one exit code for all of them.

    Args:
        processes: how many.
        arguments: of each.
        program: what comes before the arguments.
    """
    common = {**os.environ, **_meeting(processes)}
    crew = [_Member(rank, [*program, *arguments], common) for rank in range(processes)]
    try:
        with _signals_passed_on(crew) as sent:
            failed = _wait(crew)
    finally:
        for member in crew:
            member.kill()
    if failed is None:
        return crew[0].code or 0
    return failed.explain(crew[0], processes, sent, "--traceback" in arguments)


def launch(processes: int) -> None:
    """Go on if this process is to do the work; else run the command several times and leave.

    Raises:
        click.exceptions.Exit: with the exit code of all of them.
    """
    if processes > 1 and not is_launched():
        raise click.exceptions.Exit(run_processes(processes, sys.argv[1:]))
    ends_with_supervisor()


def ends_with_supervisor() -> None:
    """Leave when the supervisor is gone, however it went; it holds the other end of stdin."""
    if os.environ.get(SUPERVISED) == "1":
        threading.Thread(target=_leave_at_end_of_stdin, daemon=True).start()


def _leave_at_end_of_stdin() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _meeting(processes: int) -> dict[str, str]:
    """Say where and how the processes meet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chosen = {"OMP_NUM_THREADS": str(max(usable_cores() // processes, 1))}
    if sys.platform == "linux":
        # Their own host name may lead nowhere where there is no network.
        chosen["GLOO_SOCKET_IFNAME"] = "lo"
    return {**{name: os.environ.get(name) or value for name, value in chosen.items()},
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), SUPERVISED: "1"}


class _Member:
    """One of the processes. Its stderr is read here; stdout is the supervisor's own."""

    def __init__(self, rank: int, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.rank = rank
        self._lines: list[tuple[float, bytes]] = []
        self._shown = 0
        self._killed = False
        # A session of its own, so that Ctrl-C arrives once, from here.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream: Any = self._process.stderr
        with stream:
            for line in stream:
                self._lines.append((time.monotonic(), line))

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    @property
    def has_failed(self) -> bool:
        return self.code not in (None, 0, STOPPED)

    @property
    def last_words_at(self) -> float:
        """When it wrote its last line; 0 where it was ended in silence."""
        self._reader.join(_SECONDS_HELD_BACK)
        killed = (self.code or 0) < 0
        return self._lines[-1][0] if self._lines and not killed else 0.0

    @property
    def guilt(self) -> tuple[bool, float]:
        """Least where the fault began: a clear word comes before a surprise, the first before
        others, and who was killed before all."""
        surprised = self.last_words_at > 0 and self._lines[-1][1].startswith(_SURPRISE)
        return surprised, self.last_words_at

    def send(self, number: int) -> None:
        if self.code is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it, if it has not ended, and take leave of it."""
        if self.code is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(_SECONDS_HELD_BACK)
        assert self._process.stdin
        self._process.stdin.close()

    def show(self, before: float) -> None:
        """Pass on what it wrote before a moment."""
        while self._shown < len(self._lines) and self._lines[self._shown][0] <= before:
            sys.stderr.buffer.write(self._lines[self._shown][1])
            self._shown += 1
        sys.stderr.buffer.flush()

    def finish(self) -> None:
        """Pass on the rest of what it wrote."""
        self._reader.join(_SECONDS_HELD_BACK)
        self.show(float("inf"))

    def has_shown(self, line: bytes) -> bool:
        """Whether a line of its own was the same, and passed on."""
        return any(line == own for _, own in self._lines[:self._shown])

    def explain(self, first: _Member, processes: int, sent: Sequence[int], whole: bool) -> int:
        """Say why it failed, as it said itself, unless the first process said so already.

        Returns:
            the exit code.
        """
        code = self.code or 0
        if code < 0 and -code in sent:
            return 128 - code
        if code < 0:
            name = signal.Signals(-code).name
            sys.stderr.write(f"bmtools: process {self.rank + 1} of {processes} was ended by "
                             f"{name}{', perhaps for lack of memory' * (name == 'SIGKILL')}\n")
            return 1
        if self is not first and not whole:
            self._shown = max(self._shown, len(self._lines) - 1)
            if self._lines and first.has_shown(self._lines[-1][1]):
                return code
        self.finish()
        return code


def _wait(crew: Sequence[_Member]) -> _Member | None:
    """Wait for all to end, or for the first to fail; what the first process says is passed on."""
    first = crew[0]
    over: float | None = None
    while any(member.code is None for member in crew):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        now = time.monotonic()
        if first.code in (0, STOPPED):
            # It has done what there was to do; the others have only to leave.
            over = over or now
            if now - over > _SECONDS_TO_FOLLOW:
                break
        elif any(member.has_failed for member in crew):
            break
        first.show(now - _SECONDS_HELD_BACK)
    deadline = time.monotonic() + _SECONDS_HELD_BACK
    while time.monotonic() < deadline and any(member.code is None for member in crew):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    failed = [member for member in crew if member.has_failed]
    if first.code in (0, STOPPED) or not failed:
        first.finish()
        return None
    guilty = min(failed, key=lambda member: member.guilt)
    if guilty is not first:
        # What the first said at about the same time is the same fault, or what came of it.
        first.show(guilty.last_words_at - _SECONDS_HELD_BACK)
    return guilty


@contextmanager
def _signals_passed_on(crew: Sequence[_Member]) -> Iterator[list[int]]:
    """Send signals on to all; gives those that were sent."""
    sent: list[int] = []

    def receive(number: int, _frame: Any) -> None:
        sent.append(number)
        for member in crew:
            member.send(number)

    before = {number: signal.signal(number, receive) for number in _PASSED_ON}
    try:
        yield sent
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
