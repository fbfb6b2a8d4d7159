"""Micro-batch size of each phase: the setting, or the largest size within a memory limit.

The memory of a training step is measured on a few sequences and extrapolated.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.data.masking.corruption import IGNORED
from bmtools.distributed import shard_processes
from bmtools.errors import BmtoolsError, setting
from bmtools.models.memory import GIB, MemoryTracker, keep_freed_memory, resident_bytes
from bmtools.models.sizes import STATE_COPIES
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import Values
from bmtools.training.distributed import is_sharded, local_bytes
from bmtools.training.loop import Trainer
from bmtools.training.plan import TrainingPlan

# Memory with fragmentation as a factor of activations, measured on a CPU without the memory of
# libraries: 0.97 to 1.13 if freed memory is returned to the system, 1.06 to 1.6 if it is kept. The
# models were BERT and ModernBERT of 2 to 6 layers, padded and packed, 0.2 to 2 GB.
_FRAGMENTATION = 1.15
_FRAGMENTATION_KEPT = 1.7
# Memory that libraries allocate when training starts: prefetched batches and threads, a GPU's
# context.
_CPU_LIBRARY_BYTES = 128 * 2**20
_GPU_LIBRARY_BYTES = GIB
_MEASURED_TOKENS = 2048


def fit_micro_batches(plan: TrainingPlan, trainer: Trainer, packed: bool,
                      processes: int) -> dict[str, int]:
    """Choose the number of sequences in a micro-batch by phase; 0 for the complete batch.

    With a memory limit, such as a GPU's memory, the memory of each phase is measured by all
    processes. Losses change only by rounding. On a GPU the allocator also enforces the limit.

    Args:
        plan: plan of the run.
        trainer: trainer before its first step.
        packed: whether documents share sequences.
        processes: number of processes that share a batch.

    Raises:
        BmtoolsError: not even one sequence fits.
    """
    settings, device = plan.optimization, trainer.accelerator.device
    limit = settings.memory_gib * GIB
    if device.type == "cuda" and not limit and not settings.deterministic:
        limit = -_agreed(trainer, -torch.cuda.get_device_properties(device).total_memory)
    if settings.micro_batch_size or not limit:
        return {phase.name: settings.micro_batch_size for phase in plan.config.phases}
    sizes = {}
    for phase in plan.config.phases:
        memory = StepMemory(plan, trainer, phase, packed, processes, limit)
        share = phase.batch.batch_size // processes
        size = min(share, memory.require_one(phase, limit))
        sizes[phase.name] = 0 if size == share else size
    if device.type == "cuda":
        # The allocator rejects requests above the limit.
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        fraction = (limit - _GPU_LIBRARY_BYTES) / total
        torch.cuda.set_per_process_memory_fraction(min(max(fraction, 0.0), 1.0))
    return sizes


def require_memory(plan: TrainingPlan, trainer: Trainer, packed: bool, memory_bytes: int) -> None:
    """Reject complete batches that exceed the memory of a CPU, in a run of one process.

    If a micro-batch size or a memory limit is set, there is no check. The micro-batch is not
    reduced automatically, because a resumed run could get another size and different roundings.

    Args:
        plan, trainer, packed: as for `fit_micro_batches`.
        memory_bytes: memory of this machine that the process may use.

    Raises:
        BmtoolsError: a batch is too large; the message names the size that fits.
    """
    settings, accelerator = plan.optimization, trainer.accelerator
    if accelerator.device.type != "cpu" or settings.micro_batch_size or settings.memory_gib \
            or accelerator.num_processes > 1:  # separate passes confuse DDP's sums of gradients
        return
    limit = float(memory_bytes)
    for phase in plan.config.phases:
        memory = StepMemory(plan, trainer, phase, packed, 1, limit)
        share = phase.batch.batch_size
        if (fitting := memory.require_one(phase, limit)) < share:
            raise BmtoolsError(
                f"phase {phase.name!r}: a batch of {share} sequences may take "
                f"{memory.total_bytes(share) / GIB:,.0f} GiB and a process may use "
                f"{limit / GIB:,.1f}; set {setting('micro_batch_size')} to {fitting} or less, "
                "which changes losses only by rounding")


class StepMemory:
    """Memory of a process that trains on micro-batches of a phase.

    Both passes run on the real model with 1, 2, 4, ... sequences of full length, and the bytes of
    live tensors are added up. Activations of larger micro-batches are extrapolated proportionally.
    This overestimates them, because gradients and logits of the head do not grow: by 6 to 9 % for
    BERT-base and ModernBERT-base, and by more for a small model with a large vocabulary.
    Memory-mapped pages of shards are not counted, because the system frees them when needed.

    Args:
        plan: plan of the run.
        trainer: trainer before its first step; weights, gradients and optimizer states stay
            unchanged.
        phase: phase with its sequences and objective.
        packed: whether documents share sequences.
        processes: number of processes that share a batch.
        limit: limit for the bytes of the measurement itself.
    """

    def __init__(self, plan: TrainingPlan, trainer: Trainer, phase: Phase, packed: bool,
                 processes: int = 1, limit: float = math.inf) -> None:
        kind = trainer.accelerator.device.type
        is_bound = plan.optimization.memory_gib > 0 and not plan.optimization.micro_batch_size
        returns_freed = is_bound and kind == "cpu" and keep_freed_memory(False)
        self._fragmentation = _FRAGMENTATION_KEPT if kind == "cpu" and not returns_freed \
            else _FRAGMENTATION
        weights = sum(weight.numel() * weight.element_size()
                      for weight in trainer.objective.parameters())
        # Copies are buckets for reducing gradients between processes, and the initial weights for
        # mixout or L2-SP.
        copies = (processes > 1) + bool(plan.regularization.mixout or plan.regularization.l2_sp)
        # A state is copied, and then written while training continues.
        copies += (STATE_COPIES - 1) * (kind == "cpu" and not plan.optimization.memory_gib)
        states = (STATE_COPIES + copies) * weights
        self._most, self._unreduced = phase.batch.batch_size, 0
        if is_sharded(trainer.accelerator):
            states //= shard_processes(trainer.accelerator.num_processes)
            self._most //= trainer.accelerator.num_processes
            # Until the last micro-batch, every process has complete gradients and weights.
            precision = trainer.accelerator.mixed_precision
            self._unreduced = weights + weights // (2 if precision == "bf16" else 1)
        self._fixed = _agreed(trainer, states + _other_bytes(trainer) + (
            _CPU_LIBRARY_BYTES if kind == "cpu" else _GPU_LIBRARY_BYTES))
        self._sizes = [1]
        self._activations = [_agreed(trainer, measure_activations(trainer, phase, packed, 1))]
        # The check of packed documents needs three gradients of complete weights, before there is
        # an optimizer, and two sequences, which need twice the memory in float32.
        self._check = packed * (max(4 * weights - states, 0) + 4 * self._activations[0])
        # The micro-batch is doubled while that is quick and within the limit.
        most = min(phase.batch.batch_size, _MEASURED_TOKENS // phase.batch.max_length)
        while (size := 2 * self._sizes[-1]) <= most and self.total_bytes(size) <= limit:
            measured = _agreed(trainer, measure_activations(trainer, phase, packed, size))
            self._activations.append(max(measured, self._activations[-1]))
            self._sizes.append(size)

    def total_bytes(self, sequences: int) -> int:
        """Return the peak memory of this process with this number of sequences in a micro-batch."""
        activations = round(self._fragmentation * self.activation_bytes(sequences))
        unreduced = self._unreduced if sequences < self._most else 0
        return self._fixed + unreduced + max(activations, self._check)

    def activation_bytes(self, sequences: int) -> float:
        """Return the peak bytes of live tensors except weights, gradients and optimizer states."""
        largest = self._sizes[-1]
        measured = float(np.interp(min(sequences, largest), self._sizes, self._activations))
        return measured * max(1.0, sequences / largest)

    def sequences_within(self, limit: float) -> int:
        """Return the size of the largest micro-batch that fits, up to the phase's batch, or 0.

        With sharded weights, the maximum is this process's share of the batch. It may fit even if
        smaller micro-batches do not, because it does not accumulate gradients.
        """
        return self._most if self.total_bytes(self._most) <= limit else \
            bisect_right(range(1, self._most), limit, key=self.total_bytes)

    def require_one(self, phase: Phase, limit: float) -> int:
        """Return `sequences_within` a limit.

        Raises:
            BmtoolsError: not even one sequence fits.
        """
        size = self.sequences_within(limit)
        if not size:
            raise BmtoolsError(
                f"phase {phase.name!r}: a single sequence of {phase.batch.max_length} tokens "
                f"needs {self.total_bytes(1) / GIB:,.2f} GiB, but a process may use "
                f"{limit / GIB:,.2f}; lower {setting('max_length')}, add "
                f"{setting('activation_checkpointing')} or use a smaller model")
        return size


def measure_activations(trainer: Trainer, phase: Phase, packed: bool, sequences: int) -> int:
    """Run both passes on full sequences; return the peak bytes except weights and gradients.

    The weights and the global random state stay unchanged.
    """
    objective: Any = trainer.objective
    device = trainer.accelerator.device
    for weight in objective.parameters():
        weight.grad = torch.zeros_like(weight)
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices), MemoryTracker() as tracker:
            inputs = full_sequences(phase, packed, sequences, objective.model.config.vocab_size)
            objective.train()
            objective.switch(phase.objective.objective)
            with trainer.passes():
                sums = objective(**{name: value if name == "lengths" else value.to(device)
                                    for name, value in inputs.items()})
                loss = sum(term.weight * sums[name]
                           for name, term in objective.loss_terms.items())
                loss.backward()
    finally:
        objective.zero_grad(set_to_none=True)
    return tracker.peak


def full_sequences(phase: Phase, packed: bool, sequences: int,
                   vocab_size: int) -> dict[str, Tensor]:
    """Make an objective's inputs of maximal length and masking, one document each.

    The last position of padded sequences is padding, so that attention uses a mask.

    Args:
        phase: its sequences and its objective.
        packed: whether documents are concatenated.
        sequences: number of sequences.
        vocab_size: number of ids to use.
    """
    length, objective = phase.batch.max_length, phase.objective
    ids = torch.arange(sequences * length).reshape(sequences, length) % vocab_size
    labels = ids.clone()
    most = 1.0 if objective.objective == "causal" else \
        max(objective.mask_rate, objective.mask_rate_end)
    # A rate holds on average; a micro-batch may have a little more.
    masked = min(length, math.ceil(1.05 * most * length) + 1)
    labels[:, masked:] = IGNORED
    inputs = {"input_ids": ids, "labels": labels}
    if objective.pair_term:
        inputs["token_type_ids"] = (torch.arange(length) >= length // 2).long().repeat(sequences,
                                                                                       1)
    if packed:
        inputs = {name: value.flatten() for name, value in inputs.items()}
        inputs["lengths"] = torch.full((sequences,), length)
    else:
        inputs["attention_mask"] = (torch.arange(length) < length - 1).repeat(sequences, 1)
    if objective.pair_term:
        inputs["nsp_labels"] = torch.zeros(sequences, dtype=torch.int64)
    return inputs


def _agreed(trainer: Trainer, own: int) -> int:
    """Return the largest value of all processes.

    So all processes make the same decisions. A pass over sharded weights needs all processes, and
    if a sequence does not fit in one process, the others must not wait for it.
    """
    value = torch.tensor([own], device=trainer.accelerator.device)
    return int(trainer.accelerator.gather(value).max())


def _other_bytes(trainer: Trainer) -> int:
    """Return this process's bytes except weights, gradients and optimizer states."""
    states: Mapping[Any, Values] = trainer.optimizer.state
    training = sum(local_bytes(weight) + (0 if weight.grad is None else local_bytes(weight.grad))
                   for weight in trainer.objective.parameters())
    training += sum(local_bytes(value) for state in states.values() for value in state.values()
                    if isinstance(value, Tensor))
    allocated = torch.cuda.memory_allocated() if trainer.accelerator.device.type == "cuda" \
        else resident_bytes()
    return max(0, allocated - training)
