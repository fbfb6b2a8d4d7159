"""Micro-batch size of each phase: as set, or as large as a memory bound allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from bmtools.errors import BmtoolsError, setting
from bmtools.models.memory import GIB, keep_freed_memory, training_state_bytes
from bmtools.recipes.phases import Phase
from bmtools.training.loop import Trainer
from bmtools.training.plan import TrainingPlan
from bmtools.training.step_memory import StepMemory, library_bytes

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def check_memory(plan: TrainingPlan, config: PretrainedConfig, processes: int,
                 sharded: bool) -> None:
    """Refuse a bound that the model alone exceeds; cheap enough to run before text is read.

    Args:
        plan: of the run.
        config: of the model.
        processes: that share a batch.
        sharded: whether they share weights too.

    Raises:
        BmtoolsError: weights, gradients and optimizer states do not fit.
    """
    needed = training_state_bytes(config) // (processes if sharded else 1)
    if _is_bound(plan) and needed > plan.optimization.memory_gib * GIB:
        raise BmtoolsError(
            f"{setting('memory_gib')}: found {plan.optimization.memory_gib:g}, but weights, "
            f"gradients and optimizer states alone take {_gib(needed)}; give more or take a "
            "smaller model")


def fit_micro_batches(plan: TrainingPlan, trainer: Trainer, packed: bool,
                      processes: int) -> dict[str, int]:
    """Choose the sequences of a micro-batch in each phase, by its name; 0 for the whole batch.

    Under a memory bound the memory of each phase is measured; all processes take part. Losses
    stay the same but for rounding. On a GPU the bound also holds for the allocator.

    Args:
        plan: of the run.
        trainer: about to train.
        packed: whether documents share sequences.
        processes: that share a batch.

    Raises:
        BmtoolsError: not even one sequence fits.
    """
    if not _is_bound(plan):
        return {phase.name: plan.optimization.micro_batch_size for phase in plan.config.phases}
    limit, sizes = plan.optimization.memory_gib * GIB, {}
    for phase in plan.config.phases:
        memory = measure_memory(plan, trainer, phase, packed, processes, limit)
        share = phase.batch.batch_size // processes
        own = torch.tensor([min(share, memory.sequences_within(limit))],
                           device=trainer.accelerator.device)
        size = int(trainer.accelerator.gather(own).min())
        if not size:
            raise BmtoolsError(
                f"{setting('memory_gib')}: found {plan.optimization.memory_gib:g}, but a single "
                f"sequence of {phase.batch.max_length} tokens takes "
                f"{_gib(memory.total_bytes(1))}; give more, lower {setting('max_length')} or add "
                f"{setting('activation_checkpointing')}")
        sizes[phase.name] = 0 if size == share else size
    _bind_gpu(limit, trainer)
    return sizes


def measure_memory(plan: TrainingPlan, trainer: Trainer, phase: Phase, packed: bool,
                   processes: int, limit: float) -> StepMemory:
    """Measure the memory of a phase of a run; arguments as for `fit_micro_batches`."""
    returns_freed = _is_bound(plan) and trainer.accelerator.device.type == "cpu" \
        and keep_freed_memory(False)
    # Gradients are reduced between processes in buckets; initial weights are mixed with those in
    # training, or compared.
    copies = (processes > 1) + plan.regularization.needs_start
    return StepMemory(trainer, phase, packed, copies, returns_freed, limit)


def _is_bound(plan: TrainingPlan) -> bool:
    return plan.optimization.memory_gib > 0 and not plan.optimization.micro_batch_size


def _bind_gpu(limit: float, trainer: Trainer) -> None:
    """Have a GPU's allocator refuse what exceeds the bound; a single process then goes on with
    smaller micro-batches."""
    device = trainer.accelerator.device
    if device.type == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        share = (limit - library_bytes(device.type)) / total
        torch.cuda.set_per_process_memory_fraction(min(max(share, 0.0), 1.0), device)


def _gib(size: int) -> str:
    return f"{math.ceil(size / GIB * 100) / 100:g}"
