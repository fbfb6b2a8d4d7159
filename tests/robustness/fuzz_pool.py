"""Processes that run commands on damaged files, and are replaced when one hangs or dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

from robustness.fuzz_mutations import mutate
from robustness.fuzz_readers import READERS, Reader
from robustness.fuzz_sets import told

from bmtools.cli.main import main
from bmtools.io.directories import BESIDE

READ, REFUSED, UNEXPECTED, HANG, DIED, LOST = (
    "read", "refused", "unexpected", "hang", "died", "lost")
VERDICTS = (REFUSED, READ, UNEXPECTED, HANG, DIED, LOST)
_MORE_MEMORY = 6 << 30
_FORK = multiprocessing.get_context("fork")
OUT = "OUT"


@dataclass(frozen=True)
class Input:
    """A damaged file: the reader's number, and that of the damage."""

    reader: int
    number: int

    def damaged(self, content: bytes) -> bytes:
        """Damage a file; the same input is the same damage."""
        return mutate(content, Random(f"{READERS[self.reader].name} {self.number}"))


@dataclass(frozen=True)
class Result:
    """What a command did with an input."""

    input: Input
    verdict: str
    said: str = ""


class _Process:
    """A process with a copy of the kit; it works on one input at a time."""

    def __init__(self, kit: Path) -> None:
        self.connection, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_serve, args=(kit, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.input: Input | None = None
        self.deadline = 0.0

    def give(self, one: Input, seconds: float) -> None:
        self.input, self.deadline = one, time.monotonic() + seconds
        self.connection.send(one)

    def take(self) -> Result | None:
        """Return its result; None while it works."""
        assert self.input is not None
        try:
            if self.connection.poll():
                found: Result = self.connection.recv()
                return found
        except EOFError:
            self.process.join()
            return Result(self.input, DIED, f"exit code {self.process.exitcode}")
        late = time.monotonic() > self.deadline
        return Result(self.input, HANG) if late else None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def fuzz(kit: Path, inputs: Iterable[Input], processes: int, seconds: float) -> Iterator[Result]:
    """Run the commands of all inputs, in any order.

    Args:
        kit: folder with the undamaged files.
        inputs: what to run.
        processes: how many run at a time.
        seconds: for each input; what takes longer hangs.
    """
    waiting = deque(inputs)
    workers = [_Process(kit) for _ in range(processes)]
    idle, busy = list(workers), list[_Process]()
    try:
        while waiting or busy:
            while idle and waiting:
                worker = idle.pop()
                worker.give(waiting.popleft(), seconds)
                busy.append(worker)
            wait([worker.connection for worker in busy], timeout=0.5)
            for worker in list(busy):
                if (result := worker.take()) is None:
                    continue
                busy.remove(worker)
                if result.verdict in (HANG, DIED):
                    worker.end()
                    worker = _Process(kit)
                    workers.append(worker)
                idle.append(worker)
                yield result
    finally:
        for worker in workers:
            worker.end()


def _serve(kit: Path, connection: Connection) -> None:
    """Work on inputs until nobody gives any."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MORE_MEMORY, soft))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(kit, folder, dirs_exist_ok=True)
        os.chdir(folder)
        baselines: dict[int, str] = {}
        while True:
            try:
                one = connection.recv()
            except EOFError:
                return
            connection.send(_judge(one, baselines))


def _judge(one: Input, baselines: dict[int, str]) -> Result:
    reader = READERS[one.reader]
    path = Path(reader.file)
    whole = path.read_bytes()
    if reader.packed and one.reader not in baselines:
        baselines[one.reader] = run(reader.command)[1]
    damaged = one.damaged(whole)
    try:
        path.write_bytes(damaged)
        code, out, err = run(reader.command)
    finally:
        path.write_bytes(whole)
    verdict, said = _verdict(reader, code, err, clear())
    if verdict == READ and reader.packed and out != baselines[one.reader]:
        verdict, said = LOST, "other records than those of the whole file"
    if verdict == READ and reader.balance:
        missing = reader.balance(damaged, [json.loads(line) for line in out.splitlines()],
                                 told(err))
        if missing > 0:
            verdict, said = LOST, f"{missing} without a word: {err}"
    return Result(one, verdict, said)


def clear() -> list[str]:
    """Remove what a command wrote to OUT; return the names, but for runs that can be resumed."""
    found = [path for path in Path().iterdir() if path.name.startswith((OUT, f".{OUT}"))]
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [path.name for path in found if not path.name.endswith(BESIDE)]


def _verdict(reader: Reader, code: int, err: str, left: list[str]) -> tuple[str, str]:
    lines = err.splitlines()
    if code == 0 and "Traceback" not in err:
        return READ, ""
    message = lines[-1] if lines else ""
    parts = (reader.file, reader.file.partition("/")[0], *reader.said)
    if code not in (1, 2) or not message.startswith("bmtools: ") or "please report" in err \
            or not all(line.startswith("bmtools: ") for line in lines):
        return UNEXPECTED, f"exit code {code}: {err[-2000:]}"
    if not any(part in message for part in parts):
        return UNEXPECTED, f"does not name the file: {message}"
    if left:
        return UNEXPECTED, f"left {left}: {message}"
    return REFUSED, message


def run(command: str) -> tuple[int, str, str]:
    """Run a command line in this process: exit code, stdout, stderr."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, file in ((1, out), (2, err)):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (
                open(number, "w", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
                for number, errors in ((1, "strict"), (2, "backslashreplace")))
            try:
                main(command.split())
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException as error:
                code = -1
                err.write(repr(error).encode())
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
        found = []
        for file in (out, err):
            file.seek(0)
            found.append(file.read().decode("utf-8", "replace"))
    return code, *found
