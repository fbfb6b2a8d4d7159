"""What training takes in memory, found by rehearsing a step on tensors without numbers."""

from __future__ import annotations

import resource
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

from bmtools.models.architectures import build_on_meta
from bmtools.models.mlm import encode, masked_lm_loss

GIB = 2**30
# Numbers that an optimizer remembers of each weight. Muon remembers one of a matrix inside the
# encoder and two of the rest; two bounds it.
_REMEMBERED = {"adamw": 2, "stable-adamw": 2, "muon": 2, "sgd": 0}
_PRECISIONS = ("no", "tf32", "bf16", "fp16")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a training step holds at its fullest, by what they are for.

    Args:
        weights: in float32, as they are kept in every precision.
        gradients: of all weights, in float32.
        optimizer: what it remembers of each weight.
        activations: what the passes hold at most: kept for the way back, or passing through.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations


def memory_estimate(config: Any, rows: int, max_length: int, mask_rate: float = 0.15,
                    optimizer: str = "adamw", precision: str = "no",
                    checkpointing: bool = False) -> MemoryEstimate:
    """Estimate the memory of training on a micro-batch, without the memory of doing it.

    A forward and a backward pass run on tensors that have a shape and no numbers, on the code
    that training runs, and live tensors are added up. Padded rows and no dropout are assumed.
    A CPU's kernels are rehearsed; a GPU's attention keeps about as much. What is not counted:
    the interpreter and its libraries, a GPU's context (about half a GB), and what an allocator
    loses to gaps: on a CPU up to 60 of 100 where it keeps what is freed.

    Args:
        config: of the model.
        rows: in the micro-batch.
        max_length: in a row.
        mask_rate: share of tokens where something is asked.
        optimizer: adamw, stable-adamw, muon or sgd.
        precision: no (float32), tf32, bf16 or fp16.
        checkpointing: keep no activations inside layers, compute them again.

    Raises:
        ValueError: an optimizer or a precision that is not listed.
    """
    if optimizer not in _REMEMBERED:
        raise ValueError(f"--optimizer: found {optimizer!r}, expected {', '.join(_REMEMBERED)}")
    if precision not in _PRECISIONS:
        raise ValueError(f"--precision: found {precision!r}, expected {', '.join(_PRECISIONS)}")
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = _without_numbers(config)
        if checkpointing:
            model.activation_checkpointing_enable(
                activation_checkpointing_kwargs={"use_reentrant": False})
        weights = sum(weight.nbytes for weight in model.parameters())
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        activations = _rehearse(model, rows, max_length, mask_rate, precision)
    return MemoryEstimate(weights, weights, weights * _REMEMBERED[optimizer], activations)


def rows_that_fit(estimate: Callable[[int], MemoryEstimate], memory_bytes: int) -> int:
    """Find about the largest micro-batch that fits into memory, never a larger one; 0 if none does.

    Args:
        estimate: gives the memory of so many rows, such as `memory_estimate` does.
        memory_bytes: that may be used.
    """
    few, many = estimate(1), estimate(9)
    fixed = few.total - few.activations
    per_row = max(1.0, (many.activations - few.activations) / 8)
    rows = int((memory_bytes - few.total) / per_row) + 1
    while rows > 0:
        found = estimate(rows)
        if found.total <= memory_bytes:
            return rows
        rows = min(rows - 1, int(rows * (memory_bytes - fixed) / found.activations))
    return 0


def _without_numbers(config: Any) -> PreTrainedModel:
    """Build a model of tensors that claim to be on the CPU; tied weights stay one."""
    model = build_on_meta(config).train()
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if tensor not in made:
                    empty = torch.empty_like(tensor, device="cpu")
                    made[tensor] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) \
                        else empty
                held[name] = made[tensor]
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def _rehearse(model: PreTrainedModel, rows: int, max_length: int, mask_rate: float,
              precision: str) -> int:
    """Run both passes and return the most bytes that were live beside weights and gradients."""
    half = torch.float16 if precision == "fp16" else torch.bfloat16
    with MemoryTracker() as ledger:
        ids = torch.zeros((rows, max_length), dtype=torch.int64)
        with torch.autocast("cpu", half, enabled=precision in ("bf16", "fp16")):
            loss = _loss(model, ids, max(1, round(ids.numel() * mask_rate)))
        loss.backward()
    return ledger.most


def _loss(model: PreTrainedModel, ids: Tensor, asked: int) -> Tensor:
    """Ask at the first places. The causal mask is made from shapes alone, where padding's is made
    from numbers; it takes the room that padding's takes."""
    states = encode(model, ids, torch.ones_like(ids, dtype=torch.bool), causal=True).flatten(0, 1)
    places = torch.arange(asked)
    return masked_lm_loss(model, states[places], torch.zeros_like(places))[0]


class MemoryTracker(TorchDispatchMode):
    """Adds up the bytes of live tensors that were made while it is entered.

    `most` is what there was at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[int, int] = {}
        self._now = 0
        self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        """Run an operation and enter what it made; views, and what it wrote into, were there."""
        given = {storage._cdata for storage in _storages((args, kwargs))}
        made = function(*args, **(kwargs or {}))
        for storage in _storages(made):
            if storage._cdata not in given and storage._cdata not in self._live:
                self._enter(storage)
        return made

    def _enter(self, storage: Any) -> None:
        key = storage._cdata
        self._live[key] = storage.nbytes()
        self._now += storage.nbytes()
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._leave, key)

    def _leave(self, key: int) -> None:
        self._now -= self._live.pop(key)


def _storages(tree: Any) -> list[Any]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def resident_bytes() -> int:
    """Memory that this process holds; its most so far, where the system tells no more."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
