"""The processes that share a run's work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

from bmtools.distributed import local_world_size, world_size
from bmtools.errors import BmtoolsError
from bmtools.models.allocator import keep_freed_memory, return_freed_memory
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.sharding import claim


def make_accelerator(settings: OptimizationConfig, log_with: Sequence[str] = (),
                     leaves_some: bool = False, logs: Path | None = None) -> Accelerator:
    """Join the other processes of a launcher, or stand alone.

    Args:
        settings: how to optimise.
        log_with: services that get the metrics; see `trackers`.
        leaves_some: some steps give some weights no gradient: a phase freezes them, or asks
            nothing of a head.
        logs: where services that write files write them.

    Raises:
        BmtoolsError: more processes than GPUs, or a precision that this device has not.
    """
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
    _fit_processes()
    claim()
    if AcceleratorState._shared_state.get("_mixed_precision", settings.mixed_precision) \
            != settings.mixed_precision:
        AcceleratorState._reset_state()  # an earlier run in this Python process chose another one
    # The first process may encode a large corpus while the others wait for it.
    patience = InitProcessGroupKwargs(timeout=timedelta(days=2))
    try:
        accelerator = Accelerator(
            mixed_precision=settings.mixed_precision, log_with=list(log_with) or None,
            project_dir=logs,
            kwargs_handlers=[patience, DistributedDataParallelKwargs(
                find_unused_parameters=leaves_some)])
    except ValueError as error:
        raise BmtoolsError(f"--mixed-precision {settings.mixed_precision}: {error}") from error
    if settings.mixed_precision == "fp16" and accelerator.device.type == "cpu":
        raise BmtoolsError("--mixed-precision: found fp16, which a CPU cannot train in; expected "
                           "bf16 or no")
    if accelerator.device.type == "cpu":
        settle = return_freed_memory if settings.memory_gib else keep_freed_memory
        settle()
    return accelerator


def _fit_processes() -> None:
    """Make sure that each process has a GPU, or that all of them use the CPU."""
    if world_size() == 1:
        return
    if not torch.accelerator.is_available():
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
        return
    local = local_world_size()
    if torch.cuda.is_available() and local > torch.cuda.device_count() \
            and os.environ.get("ACCELERATE_USE_CPU", "false").lower() != "true":
        raise BmtoolsError(f"--processes: found {local}, but this machine has "
                           f"{torch.cuda.device_count()} GPUs; ACCELERATE_USE_CPU=true trains on "
                           "its processor")
