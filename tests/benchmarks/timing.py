"""Timing of bmtools and other tools: functions or programs that take turns.

Turns spread the noise of a busy machine over all sides. Each program has its own peak memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 3
THREADS = 2
_PROGRAM = """
import json, re, sys, time
from pathlib import Path
{before}
started = time.process_time()
{work}
seconds = time.process_time() - started
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
{after}
print(seconds, int(peak) / 1024)
"""


def in_turns(sides: Mapping[str, Callable[[], object]], rounds: int = ROUNDS,
             clock: Callable[[], float] = time.process_time) -> dict[str, list[float]]:
    """Call functions in turns, and return the seconds of each call."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            started = clock()
            side()
            seconds[name].append(clock() - started)
    return seconds


def program(before: str, work: str, after: str = "") -> str:
    """Return a program that prints the processor time of its work, and its peak in megabytes.

    Args:
        before: imports and preparation, which are not timed.
        work: timed code; arguments are in `sys.argv`.
        after: code that writes the results.
    """
    return _PROGRAM.format(before=before, work=work, after=after)


def measured(code: str, *arguments: object) -> tuple[float, float]:
    """Run a `program` on one thread, and return the seconds and megabytes that it prints."""
    seconds, peak = map(float, run("-c", code, *arguments, threads=1).out.split()[-2:])
    return seconds, peak


@dataclass(frozen=True)
class Run:
    """A finished program: seconds, peak resident megabytes, stdout, seconds on processors."""

    seconds: float
    megabytes: float
    out: str
    cpu_seconds: float


def run(*command: object, gpu: bool = False, threads: int = THREADS) -> Run:
    """Run Python with arguments."""
    no_gpu = {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    started = time.perf_counter()
    with subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **no_gpu, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1",
                 "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}) as process:
        assert process.stdout is not None
        with ThreadPoolExecutor(1) as watcher:
            peak = watcher.submit(_peak_megabytes, process.pid)
            out = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Run(time.perf_counter() - started, peak.result(), out, used.ru_utime + used.ru_stime)


def _peak_megabytes(process: int) -> float:
    """Return a program's peak memory at its end; `ru_maxrss` starts with the parent's peak."""
    peak = 0.0
    with contextlib.suppress(OSError, StopIteration):
        while True:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
            time.sleep(0.02)
    return peak


def alternate(sides: Mapping[str, Sequence[object]]) -> dict[str, list[Run]]:
    """Let programs take turns; the first turn warms up the system's file cache."""
    turns = [{name: run(*side) for name, side in sides.items()} for _ in range(ROUNDS + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in sides}


def ratios(ours: Sequence[Run], theirs: Sequence[Run]) -> dict[str, float]:
    """Compare two programs turn by turn."""
    speeds = [other.seconds / one.seconds for one, other in zip(ours, theirs, strict=True)]
    spent = [other.cpu_seconds / one.cpu_seconds for one, other in zip(ours, theirs, strict=True)]
    return {"median": round(statistics.median(speeds), 2), "lowest": round(min(speeds), 2),
            "highest": round(max(speeds), 2), "processor": round(statistics.median(spent), 2),
            "memory": round(max(one.megabytes for one in ours)
                            / max(one.megabytes for one in theirs), 2)}


def summary(turns: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, float]]:
    """Return the median seconds and the peak megabytes of each program."""
    return {name: {"seconds": round(statistics.median(one.seconds for one in runs), 1),
                   "megabytes": round(max(one.megabytes for one in runs))}
            for name, runs in turns.items()}


def note(benchmark: Any, **found: Any) -> None:
    """Add results to the benchmark's record, and print them."""
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info.update(found)
    print(f"\n{benchmark.name}: {json.dumps(found)}")


def write(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Write records as JSON Lines."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records),
                    encoding="utf-8")
    return path
