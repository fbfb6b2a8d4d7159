"""Commands in pipelines; one of them gets a signal at a chosen moment."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_bmtools import BEGUN, ENDED, REACHED, start

SECONDS = 120.0
_GO_ON = b"."


@dataclass(frozen=True)
class Moment:
    """A signal, and the moment at which a process gets it.

    Args:
        number: number of the signal.
        change: number of the change to files that triggers it, from 1; 0 for the start.
        seconds: delay after that.
    """

    number: int
    change: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Ending:
    """The end of a command.

    Args:
        code: its exit code; None if a signal killed it.
        changes: number of changes that it made to files; 0 if a signal killed it.
        err: its stderr.
        seconds: seconds from its start to its end.
    """

    code: int | None
    changes: int
    err: str
    seconds: float


class _Process:
    def __init__(self, server: Path, arguments: Sequence[str], folder: Path,
                 streams: dict[int, int], moment: Moment | None) -> None:
        self._moment = moment
        environment = dict(os.environ)
        if moment and moment.change:
            environment["REACHES"] = str(moment.change)
        self._connection = start(str(server), ["bmtools", *arguments], str(folder), environment,
                                 streams)
        self._connection.settimeout(SECONDS)
        [self._id] = BEGUN.unpack(self._connection.recv(BEGUN.size, socket.MSG_WAITALL))
        self._began = time.monotonic()

    def end(self) -> tuple[int | None, int, float]:
        """Wait for the end of the process, and send the signal before."""
        with closing(self._connection):
            answer = b""
            if self._moment and self._moment.change:
                answer = self._receive(len(REACHED))
            if self._moment and answer in (b"", REACHED):
                answer = self._disturb(self._moment)
            answer += self._receive(ENDED.size - len(answer))
        code, changes = ENDED.unpack(answer) if len(answer) == ENDED.size else (None, 0)
        return code, changes, time.monotonic() - self._began

    def _disturb(self, moment: Moment) -> bytes:
        """Send the signal at its moment, unless the process ends first; return received bytes."""
        self._connection.settimeout(moment.seconds)
        with suppress(BrokenPipeError, ProcessLookupError):  # the process has ended
            if moment.change and moment.seconds:
                self._connection.sendall(_GO_ON)
            with suppress(BlockingIOError, TimeoutError):
                return self._receive(ENDED.size)
            os.kill(self._id, moment.number)
            self._connection.settimeout(SECONDS)
            if moment.change and not moment.seconds:
                self._connection.sendall(_GO_ON)
        return b""

    def _receive(self, size: int) -> bytes:
        try:
            return self._connection.recv(size, socket.MSG_WAITALL) if size else b""
        except ConnectionResetError:  # the process was killed before it continued
            return b""


def run_pipeline(server: Path, commands: Sequence[Sequence[str]], folder: Path, errors: Path,
                 moment: Moment | None = None, victim: int = 0) -> list[Ending]:
    """Run commands as a pipeline, in which each reads the output before it, and wait for all.

    Args:
        server: socket of the `warm_bmtools` server.
        commands: arguments of `bmtools`.
        folder: folder in which they run.
        errors: file for their stderr; the number of the command is added to its name.
        moment: moment of the signal to one command.
        victim: number of the command that gets the signal.
    """
    processes: list[_Process] = []
    files = [errors.with_stem(f"{errors.stem}-{number}") for number in range(len(commands))]
    before: Any = os.open(os.devnull, os.O_RDONLY)
    for number, arguments in enumerate(commands):
        after, out = os.pipe() if number + 1 < len(commands) else (
            -1, os.open(os.devnull, os.O_WRONLY))
        err = os.open(files[number], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        processes.append(_Process(server, arguments, folder, {0: before, 1: out, 2: err},
                                  moment if number == victim else None))
        for stream in (before, out, err):
            os.close(stream)
        before = after
    # The signal arrives before the commands ahead of the victim have ended; they end with it.
    found = {}
    for number in sorted(range(len(commands)), key=lambda number: number != victim):
        found[number] = processes[number].end()
    return [Ending(*found[number][:2], files[number].read_text(), found[number][2])
            for number in range(len(commands))]
