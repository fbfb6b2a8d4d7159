"""Accelerator of a run: its device, precision and processes."""

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
from bmtools.errors import BmtoolsError, setting
from bmtools.models.memory import keep_freed_memory
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.sharding import take_over_fsdp


def make_accelerator(settings: OptimizationConfig, log_with: Sequence[str] = (),
                     find_unused_parameters: bool = False,
                     project_dir: Path | None = None) -> Accelerator:
    """Make an Accelerator, and join the other processes of a launcher if there are some.

    Args:
        settings: of the optimization.
        log_with: names of experiment trackers.
        find_unused_parameters: some steps leave weights without a gradient, as a phase freezes
            them or does not use a head.
        project_dir: directory for trackers that write files.

    Raises:
        BmtoolsError: more processes than GPUs, or a precision that this device does not have.
    """
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
    _check_processes()
    take_over_fsdp()
    if AcceleratorState._shared_state.get("_mixed_precision", settings.mixed_precision) \
            != settings.mixed_precision:
        AcceleratorState._reset_state()  # set by an earlier run in this Python process
    # The main process may tokenize a large corpus while the others wait for it.
    timeout = InitProcessGroupKwargs(timeout=timedelta(days=2))
    try:
        accelerator = Accelerator(
            mixed_precision=settings.mixed_precision, log_with=list(log_with) or None,
            project_dir=project_dir,
            kwargs_handlers=[timeout, DistributedDataParallelKwargs(
                find_unused_parameters=find_unused_parameters)])
    except ValueError as error:
        raise BmtoolsError(f"{setting('mixed_precision')}: found {settings.mixed_precision}: "
                           f"{error}") from error
    if settings.mixed_precision == "fp16" and accelerator.device.type == "cpu":
        raise BmtoolsError(f"{setting('mixed_precision')}: found fp16, which a CPU cannot train "
                           "in; expected bf16 or no")
    if accelerator.device.type == "cpu":
        keep_freed_memory(not settings.memory_gib)
    return accelerator


def _check_processes() -> None:
    """Check that each process has a GPU, or have all of them use the CPU."""
    if world_size() == 1:
        return
    if not torch.accelerator.is_available():
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
        return
    local = local_world_size()
    if torch.cuda.is_available() and local > torch.cuda.device_count() \
            and os.environ.get("ACCELERATE_USE_CPU", "false").lower() != "true":
        raise BmtoolsError(f"{setting('processes')}: found {local}, but this machine has "
                           f"{torch.cuda.device_count()} GPUs; ACCELERATE_USE_CPU=true trains on "
                           "its processor")
