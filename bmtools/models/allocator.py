"""Freed memory of glibc's allocator: kept for reuse, or returned to the system."""

from __future__ import annotations

import ctypes
import time

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_NEVER = -1
_LARGEST_KEPT_BYTES = 2**31 - 1
_MAPPED_BYTES = 2**20
_TRIM_SECONDS = 10.0


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for the next allocation.

    By default it returns blocks of 32 MB and more to the system, which then clears their pages
    anew: a tenth to a fifth of a training step of a small model. Costs fragmentation, which
    `HeapTrimmer` reduces.

    Returns:
        whether the C library is glibc and has accepted.
    """
    return _mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES) and _mallopt(_TRIM_THRESHOLD, _NEVER)


def return_freed_memory() -> bool:
    """Have glibc return large blocks of freed memory to the system at once.

    By default it keeps them, and loses up to as much again to fragmentation as sequences change
    their lengths. Costs up to a fifth more processor time.

    Returns:
        whether the C library is glibc and has accepted.
    """
    return _mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES) and _mallopt(_TRIM_THRESHOLD, _MAPPED_BYTES)


class HeapTrimmer:
    """Fragments of freed memory, returned to the system every few seconds.

    Batches of ever other shapes leave fragments that fit no later allocation and grow to more than
    the memory in use. Trimming takes some hundredths of a second.

    Args:
        seconds: between two times.
    """

    def __init__(self, seconds: float = _TRIM_SECONDS) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def trim(self) -> bool:
        """Return fragments to the system if it is time; tell whether some were returned."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        try:
            return bool(ctypes.CDLL(None).malloc_trim(0))
        except (OSError, AttributeError, TypeError):
            return False


def _mallopt(parameter: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(parameter, value))
    except (OSError, AttributeError, TypeError):
        return False
