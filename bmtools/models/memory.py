"""Memory: bytes of live tensors, bytes of a process, and glibc's reuse of freed memory."""

from __future__ import annotations

import ctypes
import resource
import sys
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

GIB = 2**30
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


class MemoryTracker(TorchDispatchMode):
    """Context that measures the peak bytes of live tensors created inside it, as `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[int, int] = {}
        self._current = 0
        self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        """Run an operation and count its outputs, but not views and tensors written in place."""
        inputs = {storage._cdata for storage in _storages((args, kwargs))}
        outputs = function(*args, **(kwargs or {}))
        for storage in _storages(outputs):
            key = storage._cdata
            if key not in inputs and key not in self._live:
                self._live[key] = storage.nbytes()
                self._current += storage.nbytes()
                self.peak = max(self.peak, self._current)
                weakref.finalize(storage, self._remove, key)
        return outputs

    def _remove(self, key: int) -> None:
        self._current -= self._live.pop(key)


def _storages(tree: Any) -> list[UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def resident_bytes() -> int:
    """Return the resident memory of this process, or its peak so far if that is unknown."""
    return _process_bytes("VmRSS:")


def peak_bytes() -> int:
    """Return the largest resident memory that this process has had."""
    return _process_bytes("VmHWM:")


def _process_bytes(key: str) -> int:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition(key)[2].split()[0])
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def keep_freed_memory(keep: bool = True) -> bool:
    """Let glibc keep freed memory for the next allocation, or return large blocks at once.

    By default glibc returns blocks of 32 MB and more to the system, which clears their pages again.
    This takes a tenth to a fifth of a training step of a small model. Keeping the blocks causes
    fragmentation, which `HeapTrimmer` reduces. By default glibc keeps smaller blocks. Because the
    lengths of sequences vary, fragmentation can then double the memory. Returning the smaller
    blocks costs up to a fifth more processor time.

    Returns:
        whether the C library is glibc and accepted the change.
    """
    # To keep memory: the largest mmap threshold that glibc accepts, and no trimming. To return it:
    # 1 MiB for both.
    mmap_bytes, trim_bytes = (2**31 - 1, -1) if keep else (2**20, 2**20)
    return _call_libc("mallopt", _MMAP_THRESHOLD, mmap_bytes) \
        and _call_libc("mallopt", _TRIM_THRESHOLD, trim_bytes)


def _call_libc(name: str, *arguments: int) -> bool:
    try:
        return bool(getattr(ctypes.CDLL(None), name)(*arguments))
    except (OSError, AttributeError, TypeError):
        return False


@dataclass
class HeapTrimmer:
    """Trimmer that returns fragments of freed memory to the system every few seconds.

    Batches whose shapes vary leave fragments that do not fit later allocations. The fragments grow
    to more than the memory in use. Trimming takes some hundredths of a second.

    Args:
        seconds: time between two trims.
    """

    seconds: float = 10.0
    _last: float = field(default_factory=time.monotonic)

    def trim(self) -> bool:
        """Return fragments to the system if it is time; return whether any were returned."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return False
        self._last = now
        return _call_libc("malloc_trim", 0)
