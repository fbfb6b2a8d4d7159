"""What the C library does with memory that is set free: kept for later, or given back at once."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_NEVER = -1
_LARGEST_KEPT_BYTES = 2**31 - 1
_MAPPED_BYTES = 2**20


def keep_freed_memory() -> bool:
    """Have the C library keep what is set free for what is asked for next, if it is glibc.

    It would give pieces of 32 MB and more back to the system, which then clears every page of them
    anew: a tenth to a fifth of a training step of a small model. Costs gaps between what is kept.

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


def _tell(parameter: int, value: int) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(parameter, value))
