"""Launcher: runs one command in several processes of this machine as if it were one process.

It prints one line for an error and returns one exit code. Signals reach all processes, and no
process outlives the others. torchrun would end an error with its own traceback. It would kill a
process that takes 30 seconds to save its state, and return 1 for a stopped run that can be resumed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import BinaryIO

import click

from bmtools.cli.progress import Display
from bmtools.distributed import SUPERVISED, is_launched
from bmtools.io.system import (
    ENDING_SIGNALS,
    REPEAT_SECONDS,
    STOPPED,
    handling_signals,
    usable_cores,
)

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 0.5  # for the main process to print an error that all processes have
_SECONDS_TO_EXIT = 60.0  # for the other processes, after the main process
_SECONDS_TO_LEAVE = 1.0  # after a second Ctrl-C
_INTERRUPTED = 130


def launch(display: Display | None, processes: int) -> None:
    """Run this command in several processes and exit, unless this is already one of them.

    Raises:
        click.exceptions.Exit: with the common exit code.
    """
    if processes > 1 and not is_launched():
        if display is not None:
            display.close()  # the main process shows the status, as lines
        raise click.exceptions.Exit(run_processes(processes, sys.argv[1:]))

    def exit_with_launcher() -> None:
        """Exit when stdin ends, which shows that the launcher has ended or was killed."""
        while os.read(0, 1):
            pass
        os._exit(1)

    if os.environ.get(SUPERVISED) == "1":
        threading.Thread(target=exit_with_launcher, daemon=True).start()


def run_processes(processes: int, arguments: Sequence[str],
                  program: Sequence[str] = (sys.executable, "-m", "bmtools")) -> int:
    """Run a program in several processes at once and return one exit code for all of them.

    The main process writes to this process's stderr. If another process is the first to fail, its
    last line is shown.

    Args:
        processes: number of processes.
        arguments: arguments of each process.
        program: command line before the arguments.
    """
    sent: list[tuple[int, float]] = []  # signals and their times

    def forward(number: int) -> None:
        sent.append((number, time.monotonic()))
        for worker in workers:
            worker.send_signal(number)

    with ExitStack() as stack:
        logs = [stack.enter_context(TemporaryFile()) for _ in range(processes)]
        # Each process gets a separate session, so that Ctrl-C reaches it once, from here.
        workers = [Popen([*program, *arguments], stdin=PIPE, stderr=log if rank else None,
                         start_new_session=True, env={**environment, "RANK": str(rank),
                                                      "LOCAL_RANK": str(rank)})
                   for environment in [_environment(processes)] for rank, log in enumerate(logs)]
        with handling_signals(ENDING_SIGNALS, forward):
            failed = _wait(workers, sent)
        left = failed is None and workers[0].poll() is None
        for worker in workers:
            worker.kill()
            worker.communicate()
        if left:
            return _INTERRUPTED
        if failed is None:
            return workers[0].returncode
        return _report(failed, workers[failed].returncode, logs, sent, "--traceback" in arguments)


def _environment(processes: int) -> dict[str, str]:
    """Return the variables that torchrun would set, except for the ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"OMP_NUM_THREADS": str(max(usable_cores() // processes, 1)), **os.environ,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes), SUPERVISED: "1"}


def _wait(workers: Sequence[Popen[bytes]], sent: Sequence[tuple[int, float]]) -> int | None:
    """Wait until all processes have ended, one has failed, or a second Ctrl-C arrived.

    Returns:
        the number of the process that failed first; the main process if it failed together with it.
    """
    main, failed = workers[0], None
    until = float("inf")
    while any(worker.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        again = [at for number, at in sent[1:]
                 if number == signal.SIGINT and at - sent[0][1] > REPEAT_SECONDS]
        if again and time.monotonic() - again[0] > _SECONDS_TO_LEAVE:
            return None
        if until == float("inf"):
            if main.poll() in (0, STOPPED):
                # The results are written; the other processes only have to exit.
                until = time.monotonic() + _SECONDS_TO_EXIT
            elif (failed := _failed(workers)) is not None:
                until = time.monotonic() + _GRACE_SECONDS
    if main.poll() in (0, STOPPED):
        return None
    if failed is None:
        return _failed(workers)
    # An error that the main process also prints is common to all, unless a process was killed.
    return 0 if workers[failed].returncode > 0 and (main.poll() or 0) > 0 else failed


def _failed(workers: Sequence[Popen[bytes]]) -> int | None:
    """Return the number of a process that ended with an error, preferring a killed process."""
    codes = {rank: worker.poll() or 0 for rank, worker in enumerate(workers)}
    return min((rank for rank, code in codes.items() if code not in (0, STOPPED)),
               key=lambda rank: codes[rank] > 0, default=None)


def _report(failed: int, code: int, logs: Sequence[BinaryIO], sent: Sequence[tuple[int, float]],
            is_whole: bool) -> int:
    """Print why a process failed, unless the main process printed it; return the exit code."""
    if code < 0:
        if -code in [number for number, _ in sent]:
            return 128 - code
        name = signal.Signals(-code).name
        hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        print(f"bmtools: process {failed + 1} of {len(logs)} was ended by {name}{hint}",
              file=sys.stderr, flush=True)
        return 1
    if failed:
        logs[failed].seek(0)
        lines = logs[failed].readlines()
        sys.stderr.buffer.write(b"".join(lines if is_whole else lines[-1:]))
        sys.stderr.buffer.flush()
    return code
