"""Processes that run commands on damaged files."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from random import Random

from robustness.fuzz_mutations import mutate
from robustness.fuzz_readers import READERS, Reader
from robustness.fuzz_sets import told

from bmtools.cli.main import main
from bmtools.io.unfinished import BESIDE

REFUSED, READ, UNEXPECTED, DIED, LOST = "refused", "read", "unexpected", "died", "lost"
_STDERR = os.dup(2)  # the stderr of commands is a file
_baselines: dict[int, str] = {}
_MORE_MEMORY = 6 << 30
_FORK = multiprocessing.get_context("fork")
OUT = "OUT"


@dataclass(frozen=True)
class Input:
    """A damaged file, identified by the number of its reader and the number of the damage."""

    reader: int
    number: int

    def damaged(self, content: bytes) -> bytes:
        """Damage a file; the same input always gets the same damage."""
        return mutate(content, Random(f"{READERS[self.reader].name} {self.number}"))


@dataclass(frozen=True)
class Result:
    """The result of a command for an input."""

    input: Input
    verdict: str
    said: str = ""


def fuzz(kit: Path, inputs: Iterable[Input], processes: int, seconds: int) -> Iterator[Result]:
    """Run the commands of all inputs, until one of them kills its process.

    Args:
        kit: folder with the undamaged files.
        inputs: inputs to try.
        processes: number of processes that run at a time.
        seconds: time limit of each input; a slower command prints a traceback and is killed.
    """
    with ProcessPoolExecutor(processes, _FORK, _enter, (kit,)) as pool:
        tasks = [(one, pool.submit(_judge, one, seconds)) for one in inputs]
        for one, task in tasks:
            try:
                yield task.result()
            except BrokenProcessPool:
                yield Result(one, DIED, f"it or one of the {processes - 1} inputs behind it")
                return


def _enter(kit: Path) -> None:
    """Enter a copy of the kit, with limited memory."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MORE_MEMORY, soft))
    folder = kit.with_name(f"{kit.name}-{os.getpid()}")
    shutil.copytree(kit, folder)
    os.chdir(folder)


def _judge(one: Input, seconds: int) -> Result:
    reader = READERS[one.reader]
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    path = Path(reader.file)
    whole = path.read_bytes()
    if reader.packed and one.reader not in _baselines:
        _baselines[one.reader] = run(reader.command)[1]
    damaged = one.damaged(whole)
    try:
        path.write_bytes(damaged)
        code, out, err = run(reader.command)
    finally:
        path.write_bytes(whole)
    verdict, said = _verdict(reader, code, err, clear())
    if verdict == READ and reader.packed and out != _baselines[one.reader]:
        verdict, said = LOST, "other records than those of the whole file"
    if verdict == READ and reader.balance:
        missing = reader.balance(damaged, [json.loads(line) for line in out.splitlines()],
                                 told(err))
        if missing > 0:
            verdict, said = LOST, f"{missing} without a word: {err}"
    faulthandler.cancel_dump_traceback_later()
    return Result(one, verdict, said)


def clear() -> list[str]:
    """Remove a command's output in OUT; return the names, without runs that can be resumed."""
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
    codes = (1, 2, 3) if " --fail-" in reader.command else (1, 2)
    if code not in codes or not message.startswith("bmtools: ") or "please report" in err \
            or not all(line.startswith("bmtools: ") for line in lines):
        return UNEXPECTED, f"exit code {code}: {err[-2000:]}"
    if not any(part in message for part in parts):
        return UNEXPECTED, f"does not name the file: {message}"
    if left:
        return UNEXPECTED, f"left {left}: {message}"
    return REFUSED, message


def run(command: str) -> tuple[int, str, str]:
    """Run a command line in this process; return the exit code, stdout and stderr."""
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
