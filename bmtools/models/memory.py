"""Memory in use: bytes of live tensors, and of a process."""

from __future__ import annotations

import resource
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bmtools.models.architectures import build_on_meta

if TYPE_CHECKING:
    from transformers import PretrainedConfig

GIB = 2**30
STATE_COPIES = 4
"""Weights, gradients and the optimizer's two moments, all float32. Muon keeps one moment of the
matrices inside the encoder."""


def training_state_bytes(config: PretrainedConfig) -> int:
    """Return the bytes of weights, gradients and optimizer states, without allocating them."""
    return STATE_COPIES * sum(weight.nbytes for weight in build_on_meta(config).parameters())


class MemoryTracker(TorchDispatchMode):
    """Peak bytes of live tensors created inside this context, as `peak`."""

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
            if storage._cdata not in inputs and storage._cdata not in self._live:
                self._add(storage)
        return outputs

    def _add(self, storage: UntypedStorage) -> None:
        key = storage._cdata
        self._live[key] = storage.nbytes()
        self._current += storage.nbytes()
        self.peak = max(self.peak, self._current)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self._current -= self._live.pop(key)


def _storages(tree: Any) -> list[UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def resident_bytes() -> int:
    """Return the resident memory of this process; where that is not known, its peak so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()
