"""Programs of one thread that measure themselves, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import json, re, sys, time
from pathlib import Path
{arguments} = sys.argv[1:]
{before}
started = time.process_time()
{work}
seconds = time.process_time() - started
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
{after}
print(seconds, int(peak) / 1024)
"""


def program(arguments: str, before: str, work: str, after: str = "") -> str:
    """Write a program that prints the processor time of its work, and its peak in megabytes.

    Args:
        arguments: names of what it gets, separated by commas.
        before: imports and preparation, which are not timed.
        work: what is.
        after: writes what was found.
    """
    return _PROGRAM.format(arguments=arguments, before=before, work=work, after=after)


def measured(code: str, *arguments: Path) -> tuple[float, float]:
    """Return what a program prints."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    seconds, peak = map(float, done.stdout.split()[-2:])
    return seconds, peak
