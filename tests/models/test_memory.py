"""Bytes of live tensors and of training states; freed memory, in separate processes."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch
from toy_tokenizers import train_tokenizer

from bmtools.models.memory import MemoryTracker
from bmtools.vocab.settings import VocabularyConfig

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENIZER = train_tokenizer(["il cuore pompa il sangue"] * 3,
                            VocabularyConfig(size=100, allow_fewer=True))
glibc_only = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="this C library has none of these settings")

_PROLOGUE = """
import numpy as np
from pathlib import Path
from bmtools.models.memory import HeapTrimmer, keep_freed_memory

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256

def leave_gaps():
    pieces = [np.ones(2**19) for _ in range(100)]
    del pieces[::2]
    return pieces
"""


def test_the_tracker_counts_live_tensors() -> None:
    with MemoryTracker() as tracker:
        first = torch.zeros(1_000)
        del first
        second = torch.zeros(500)
        view = second[:10]
        third = second + 1
        assert (len(view), len(third)) == (10, 500)
    assert tracker.peak == 4_000


def run(lines: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROLOGUE + lines], capture_output=True,
                          text=True, check=True)
    return done.stdout.split()


@glibc_only
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
