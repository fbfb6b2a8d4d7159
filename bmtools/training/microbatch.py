"""How many rows go through the model at a time: what was asked for, or what memory holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from bmtools.data.batches import Collator, RankBatch, RowBatches
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError
from bmtools.models.allocator import return_freed_memory
from bmtools.models.memory import GIB, memory_estimate
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import Schedule
from bmtools.training.loop import Trainer
from bmtools.training.plan import TrainingPlan
from bmtools.training.sharding import is_sharded
from bmtools.training.step_memory import StepMemory, circumstances, goes_through, libraries_bytes


def check_memory(plan: TrainingPlan, config: Any, processes: int, sharded: bool) -> None:
    """Refuse a bound that the model alone exceeds; cheap, so runs call it before they read text.

    Args:
        plan: the run as asked for.
        config: of the model.
        processes: that share a batch.
        sharded: whether they share weights too.

    Raises:
        BmtoolsError: not even a row fits.
    """
    loop = plan.optimization
    for phase in plan.config.phases if _is_bound(plan) else ():
        tokens = phase.batch.max_length
        least = memory_estimate(config, 1, tokens, **circumstances(loop, phase.objective)).total
        if sharded:
            least //= processes
        if least > loop.memory_gib * GIB:
            raise _too_little(plan, phase, least)


def fit_passes(plan: TrainingPlan, trainer: Trainer, packed: bool, processes: int) -> dict[str,
                                                                                           int]:
    """Find the rows of a pass in each phase, by its name; 0 for all at once.

    Where memory is bound, a pass of each phase is rehearsed; all processes take part. What is
    learnt afterwards is the same.

    Args:
        plan: the run as asked for.
        trainer: about to train.
        packed: whether documents share rows.
        processes: that share a batch.

    Raises:
        BmtoolsError: not even a row fits.
    """
    phases = plan.config.phases
    if not _is_bound(plan):
        return {phase.name: plan.optimization.micro_batch_size for phase in phases}
    _bind_gpu(plan, trainer)
    return {phase.name: _rows_of(plan, trainer, phase, packed, processes) for phase in phases}


def demand_of(plan: TrainingPlan, trainer: Trainer, phase: Phase, packed: bool,
              processes: int) -> StepMemory:
    """Rehearse a phase of a run and tell what memory it takes; arguments as for `fit_passes`."""
    returned = _is_bound(plan) and trainer.accelerator.device.type == "cpu" \
        and return_freed_memory()
    # Gradients are gathered from several processes in buckets; weights of the start are mixed
    # with those in training, or compared.
    copies = (processes > 1) + plan.regularization.needs_start
    return StepMemory(trainer, phase, packed, copies, returned)


def _is_bound(plan: TrainingPlan) -> bool:
    return plan.optimization.memory_gib > 0 and not plan.optimization.micro_batch_size


def _bind_gpu(plan: TrainingPlan, trainer: Trainer) -> None:
    """Have a GPU's allocator refuse what exceeds the bound, which is out of memory for a pass."""
    device = trainer.accelerator.device
    if device.type == "cuda":
        room = plan.optimization.memory_gib * GIB - libraries_bytes(trainer)
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(max(room / total, 0.0), 1.0), device)


def _rows_of(plan: TrainingPlan, trainer: Trainer, phase: Phase, packed: bool,
             processes: int) -> int:
    demand = demand_of(plan, trainer, phase, packed, processes)
    share, limit = phase.batch.batch_size // processes, plan.optimization.memory_gib * GIB
    rows = share if demand.bytes_of(share) <= limit else min(share, demand.rows_within(limit))
    rows = _least(rows, trainer)
    while rows and not _all_go_through(trainer, phase, packed, rows):
        rows //= 2
    if not rows:
        raise _too_little(plan, phase, demand.bytes_of(1))
    return 0 if rows == share else rows


def _all_go_through(trainer: Trainer, phase: Phase, packed: bool, rows: int) -> bool:
    """Try a pass on GPUs, which tell when they are full.

    Where weights are shared out, one process that gives up would leave the others waiting.
    """
    if trainer.accelerator.device.type != "cuda" or is_sharded(trainer.accelerator):
        return True
    return bool(_least(int(goes_through(trainer, phase, packed, rows)), trainer))


def _least(number: int, trainer: Trainer) -> int:
    """Agree on the least number of all processes."""
    accelerator = trainer.accelerator
    if accelerator.num_processes == 1:
        return number
    own = torch.tensor([number], device=accelerator.device)
    return int(accelerator.gather(own).min())


def _too_little(plan: TrainingPlan, phase: Phase, needed: float) -> BmtoolsError:
    return BmtoolsError(
        f"--memory-gib: found {plan.optimization.memory_gib:g}, but a single row of "
        f"{phase.batch.max_length} tokens takes {math.ceil(needed / GIB * 100) / 100:g}; "
        "give more, lower --max-length or add --activation-checkpointing")


class PhaseBatches:
    """Batches of a run whose passes have as many rows as their phase allows.

    Args:
        stream: plans the rows.
        timeline: says what each step asks.
        maker: makes tensors of rows.
        passes: rows of a pass by the name of the phase; 0 for all at once.
    """

    def __init__(self, stream: Sampler, timeline: Schedule, maker: Collator,
                 passes: Mapping[str, int]) -> None:
        self._timeline = timeline
        self._by_rows = {rows: RowBatches(stream, timeline, maker, rows)
                         for rows in set(passes.values())}
        self._passes = passes

    def batch(self, number: int, process: int = 0, processes: int = 1) -> RankBatch:
        """Make every n-th row of a batch, in passes."""
        rows = self._passes[self._timeline.phase_step(number).phase.name]
        return self._by_rows[rows].batch(number, process, processes)
