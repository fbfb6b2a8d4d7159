"""What the C library does with memory that is set free: kept for later, or given back at once."""

from __future__ import annotations

import ctypes
import time

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_NEVER = -1
_LARGEST_KEPT_BYTES = 2**31 - 1
_MAPPED_BYTES = 2**20
_SECONDS_BETWEEN = 10.0


def keep_freed_memory() -> bool:
    """Have the C library keep what is set free for what is asked for next, if it is glibc.

    It would give pieces of 32 MB and more back to the system, which then clears every page of them
    anew: a tenth to a fifth of a training step of a small model. Costs gaps between what is kept,
    which `Gaps` gives back.

    Returns:
        whether it took this.
    """
    return _tell(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES) and _tell(_TRIM_THRESHOLD, _NEVER)


def return_freed_memory() -> bool:
    """Have the C library give large pieces of freed memory back at once, if it is glibc.

    It would keep them for later, and lose up to as much again to gaps between them as rows of
    ever other lengths come by. Costs up to a fifth more processor time.

    Returns:
        whether it took this.
    """
    return _tell(_MMAP_THRESHOLD, _MAPPED_BYTES) and _tell(_TRIM_THRESHOLD, _MAPPED_BYTES)


class Gaps:
    """What was set free and fits nothing that is asked for: batches of ever other shapes leave it.

    It would grow without a clear end, to more than what is in use. Giving it back takes some
    hundredths of a second, so it is done every few seconds.

    Args:
        seconds: between two times.
    """

    def __init__(self, seconds: float = _SECONDS_BETWEEN) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def give_back(self) -> bool:
        """Have glibc give gaps back to the system if it is time; whether it did."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        try:
            return bool(ctypes.CDLL(None).malloc_trim(0))
        except (OSError, AttributeError, TypeError):
            return False


def _tell(parameter: int, value: int) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(parameter, value))
