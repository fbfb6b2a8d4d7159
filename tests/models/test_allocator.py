"""Memory that was set free, in processes of their own: what is told to the C library stays told."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has none "
                                                                          "of these settings")

_PROLOGUE = """
import numpy as np
from pathlib import Path
from bmtools.models.allocator import HeapTrimmer, keep_freed_memory, return_freed_memory

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256

def leave_gaps():
    pieces = [np.ones(2**19) for _ in range(100)]
    del pieces[::2]
    return pieces
"""


def run(lines: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROLOGUE + lines], capture_output=True,
                          text=True, check=True)
    return done.stdout.split()


def test_fragments_are_returned_when_it_is_time() -> None:
    early, before, given, after = run("""
keep_freed_memory()
kept = leave_gaps()
print(HeapTrimmer(60).trim())
print(resident_mib())
print(HeapTrimmer(0).trim())
print(resident_mib())
""")
    assert (early, given) == ("False", "True")
    assert int(before) - int(after) > 150, "half of 400 MiB were gaps"


def test_large_blocks_are_returned_at_once_if_set_so() -> None:
    kept, returned = (int(run(f"""
{choice}()
before = resident_mib()
pieces = leave_gaps()
print(resident_mib() - before)
""")[0]) for choice in ("keep_freed_memory", "return_freed_memory"))
    assert kept - returned > 150
