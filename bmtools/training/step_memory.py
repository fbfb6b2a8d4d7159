"""The memory that training takes in a process, libraries and all, by the rows of a pass."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from bmtools.masking.corruption import IGNORED
from bmtools.masking.curves import RateCurve
from bmtools.models.memory import (
    GIB,
    MemoryEstimate,
    MemoryTracker,
    memory_estimate,
    resident_bytes,
    rows_that_fit,
)
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import ObjectiveConfig, OptimizationConfig
from bmtools.training.loop import Trainer
from bmtools.training.sharding import held_bytes, is_sharded

# What allocators lose to gaps, as a factor of activations. On a CPU, where freed memory is given
# back, 0.97 to 1.13 were measured beside what libraries take; where it is kept, 1.06 to 1.6: BERT
# and ModernBERT of 2 to 6 layers, padded and packed, 0.2 to 2 GB.
_GAPS = {"cpu": 1.15, "cuda": 1.15}
_GAPS_KEPT = 1.7
_LIBRARIES = {"cpu": 128 * 2**20, "cuda": GIB}
_TRIED_TOKENS = 1024
_EXPLAINED = 1.05


class StepMemory:
    """The memory that a phase takes.

    Activations of a plain masked model are those of `memory_estimate`. Where dropout, an
    adversary, a teacher or pairs take more, which two passes over a few whole rows show, they grow
    along a straight line from what these take. Pages of shards that are mapped into memory, which
    the system takes back when it needs them, come on top.

    Args:
        trainer: about to train; weights, gradients and the optimizer's memory stay as they are.
        phase: what is asked of it.
        packed: whether documents share rows.
        copies: how often all weights, or numbers like them, are held once more for a while.
        returned: whether freed memory is given back to the system, which matters on a CPU.
    """

    def __init__(self, trainer: Trainer, phase: Phase, packed: bool, copies: int = 0,
                 returned: bool = False) -> None:
        self._estimate = cache(partial(
            memory_estimate, trainer.objective.model.config, max_length=phase.batch.max_length,
            **circumstances(trainer.settings, phase.objective)))
        kind = trainer.accelerator.device.type
        self._gaps = _GAPS_KEPT if kind == "cpu" and not returned else \
            _GAPS.get(kind, _GAPS["cuda"])
        estimate = self._fit_line(trainer, phase, packed)
        self._plain = estimate.total - estimate.activations
        held = self._plain + copies * estimate.weights
        if is_sharded(trainer.accelerator):
            held //= trainer.accelerator.num_processes
        self._fixed = held + _others(trainer) + libraries_bytes(trainer)
        # The proof that packed documents keep apart holds a gradient more, and two rows twice.
        self._proof = round(packed * (estimate.weights + 4 * self._activations(1)))

    def _fit_line(self, trainer: Trainer, phase: Phase, packed: bool) -> MemoryEstimate:
        """Try a few rows; where the estimate falls short, note the slope of what was seen."""
        rows = max(2, min(_TRIED_TOKENS // phase.batch.max_length, 16))
        estimate = self._estimate(rows)
        seen = rehearsed_bytes(trainer, phase, packed, rows)
        self._line: tuple[float, float] | None = None
        if seen > _EXPLAINED * estimate.activations:
            one = rehearsed_bytes(trainer, phase, packed, 1)
            slope = (seen - one) / (rows - 1)
            self._line = (one - slope, slope)
        return estimate

    def bytes_of(self, rows: int) -> int:
        """Bytes of this process at its fullest."""
        return self._fixed + max(round(self._gaps * self._activations(rows)), self._proof)

    def rows_within(self, limit: float) -> int:
        """Most rows of a pass within so many bytes; 0 if none fits."""
        room = limit - self._fixed
        if room < self._proof:
            return 0
        if self._line:
            first, slope = self._line
            return max(0, int((room / self._gaps - first) / slope))
        return rows_that_fit(self._estimate, int(self._plain + room / self._gaps))

    def _activations(self, rows: int) -> float:
        if self._line:
            return self._line[0] + rows * self._line[1]
        return self._estimate(rows).activations


def libraries_bytes(trainer: Trainer) -> int:
    """What libraries still take once the weights are there.

    Batches made ahead, threads, a GPU's context.
    """
    return _LIBRARIES.get(trainer.accelerator.device.type, _LIBRARIES["cuda"])


def circumstances(settings: OptimizationConfig, task: ObjectiveConfig) -> dict[str, Any]:
    """What `memory_estimate` wants to know of a run, beside model and rows."""
    return {"mask_rate": most_asked(task), "optimizer": settings.optimizer,
            "precision": settings.mixed_precision,
            "checkpointing": settings.activation_checkpointing}


def most_asked(task: ObjectiveConfig) -> float:
    """Largest share of tokens at which something is asked."""
    if task.objective == "causal":
        return 1.0
    curve = RateCurve(task.mask_curve, task.mask_rate, task.mask_rate_end or None,
                      task.mask_rate_steps)
    return max(curve.rate(0.0), curve.rate(1.0))


def goes_through(trainer: Trainer, phase: Phase, packed: bool, rows: int) -> bool:
    """Try both passes over whole rows, beside all that training holds; False out of memory."""
    ballast = None
    try:
        if not _remembered_bytes(trainer):
            ballast = torch.empty(_unmet_memory(trainer), dtype=torch.uint8,
                                  device=trainer.accelerator.device)
        rehearse(trainer, phase, packed, rows)
    except torch.OutOfMemoryError:
        return False
    finally:
        del ballast
        trainer.objective.zero_grad(set_to_none=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return True


def _unmet_memory(trainer: Trainer) -> int:
    """Bytes that the optimizer takes at its first step."""
    return memory_estimate(trainer.objective.model.config, 1, 8,
                           optimizer=trainer.settings.optimizer).optimizer


def rehearsed_bytes(trainer: Trainer, phase: Phase, packed: bool, rows: int) -> int:
    """Run both passes on whole rows, and count the most bytes that lived beside the weights."""
    for weight in trainer.objective.parameters():
        weight.grad = torch.zeros_like(weight)
    try:
        with MemoryTracker() as ledger:
            rehearse(trainer, phase, packed, rows)
    finally:
        trainer.objective.zero_grad(set_to_none=True)
    return ledger.most


def rehearse(trainer: Trainer, phase: Phase, packed: bool, rows: int) -> None:
    """Run both passes of a phase's task on rows that are as full as they get; nothing is learnt.

    Gradients are left behind. The common generator stays as it was.
    """
    objective: Any = trainer.objective
    device = trainer.accelerator.device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), trainer.accelerator.autocast():
        objective.train()
        objective.switch(phase.objective.objective)
        inputs = whole_rows(phase, packed, rows, objective.model.config.vocab_size)
        found = objective(**{name: value if name == "lengths" else value.to(device)
                             for name, value in inputs.items()})
        loss = sum(part.weight * found[name] for name, part in objective.loss_terms.items())
    loss.backward()


def whole_rows(phase: Phase, packed: bool, rows: int, vocabulary: int) -> dict[str, Tensor]:
    """Make what an objective takes, of whole rows of one document each, as much asked as ever.

    The last place of padded rows is padding, so that they take a mask.

    Args:
        phase: its rows and its task.
        packed: whether they lie end to end.
        rows: how many.
        vocabulary: ids that there are.
    """
    tokens = phase.batch.max_length
    ids = torch.arange(rows * tokens).reshape(rows, tokens) % vocabulary
    labels = ids.clone()
    # A rate is met on average; a pass may have a little more.
    asked = min(tokens, math.ceil(1.05 * most_asked(phase.objective) * tokens) + 1)
    labels[:, asked:] = IGNORED
    inputs = {"input_ids": ids, "labels": labels}
    if phase.objective.objective == "masked+nsp":
        inputs["token_type_ids"] = (torch.arange(tokens) >= tokens // 2).long().repeat(rows, 1)
    if packed:
        inputs = {name: value.flatten() for name, value in inputs.items()}
        inputs["lengths"] = torch.full((rows,), tokens)
    else:
        inputs["attention_mask"] = (torch.arange(tokens) < tokens - 1).repeat(rows, 1)
    if phase.objective.objective == "masked+nsp":
        inputs["nsp_labels"] = torch.zeros(rows, dtype=torch.int64)
    return inputs


def _others(trainer: Trainer) -> int:
    """Bytes of this process that are no weights, gradients or memory of the optimizer."""
    held = sum(held_bytes(weight) + (0 if weight.grad is None else held_bytes(weight.grad))
               for weight in trainer.objective.parameters()) + _remembered_bytes(trainer)
    if trainer.accelerator.device.type == "cuda":
        return max(0, torch.cuda.memory_allocated() - held)
    return max(0, resident_bytes() - held)


def _remembered_bytes(trainer: Trainer) -> int:
    memory: Mapping[Any, Mapping[str, Any]] = trainer.optimizer.state
    return sum(held_bytes(value) for entry in memory.values() for value in entry.values()
               if isinstance(value, Tensor))
