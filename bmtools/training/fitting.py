"""How many rows go through the model at a time: what was asked for, or what memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bmtools.errors import BmtoolsError
from bmtools.models.memory import memory_estimate, rows_that_fit
from bmtools.training.batches import Maker, RowBatches, Share
from bmtools.training.phases import Phase
from bmtools.training.plan import Plan
from bmtools.training.stream import Stream
from bmtools.training.timeline import Timeline

_GIB = 2**30


def fit_passes(plan: Plan, config: Any, processes: int,
               beside_bytes: int = 0) -> dict[str, int]:
    """Find the rows of a pass in each phase, by its name; 0 for all at once.

    Args:
        plan: the run as asked for.
        config: of the model.
        processes: that share a batch.
        beside_bytes: memory that something else than training takes, such as a teacher.

    Raises:
        BmtoolsError: not even a row fits.
    """
    loop, phases = plan.loop, plan.script.phases
    if loop.micro_batch or not loop.memory_gib:
        return {phase.name: loop.micro_batch for phase in phases}
    return {phase.name: _rows_of(phase, plan, config, processes, beside_bytes)
            for phase in phases}


def _rows_of(phase: Phase, plan: Plan, config: Any, processes: int, beside_bytes: int) -> int:
    task, loop = phase.task, plan.loop
    circumstances: dict[str, Any] = {
        "mask_rate": 1.0 if task.objective == "causal" else max(task.mask_rate,
                                                                task.mask_rate_end),
        "optimizer": loop.optimizer, "precision": loop.precision,
        "checkpointing": loop.activation_checkpointing}
    tokens = phase.rows.row_tokens
    one = memory_estimate(config, 1, tokens, **circumstances)
    # Weights of the start, and gradients on their way between processes, are held once more.
    beside = beside_bytes + one.weights * plan.forgetting.needs_start \
        + one.gradients * (processes > 1)
    rows = rows_that_fit(config, int(loop.memory_gib * _GIB) - beside, tokens, **circumstances)
    if not rows:
        raise BmtoolsError(
            f"--memory-gib: found {loop.memory_gib:g}, but a single row of {tokens} tokens takes "
            f"{(one.total + beside) / _GIB:.2g}; give more, lower --row-tokens or add "
            "--activation-checkpointing")
    return 0 if rows * processes >= phase.rows.batch_size else rows


class PhaseBatches:
    """Batches of a run whose passes have as many rows as their phase allows.

    Args:
        stream: plans the rows.
        timeline: says what each step asks.
        maker: makes tensors of rows.
        passes: rows of a pass by the name of the phase; 0 for all at once.
    """

    def __init__(self, stream: Stream, timeline: Timeline, maker: Maker,
                 passes: Mapping[str, int]) -> None:
        self._timeline = timeline
        self._by_rows = {rows: RowBatches(stream, timeline, maker, rows)
                         for rows in set(passes.values())}
        self._passes = passes

    def batch(self, number: int, process: int = 0, processes: int = 1) -> Share:
        """Make every n-th row of a batch, in passes."""
        rows = self._passes[self._timeline.stage(number).phase.name]
        return self._by_rows[rows].batch(number, process, processes)
