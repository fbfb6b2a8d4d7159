"""Rank and world size of this process, from the environment that a launcher sets.

torchrun, Accelerate's launcher and `--processes` set the same variables. Without a launcher one
process does all the work. This module does not import torch, so commands can call it before
anything heavy loads.
"""

from __future__ import annotations

import os

SHARD = "BMTOOLS_SHARD"
"""Environment variable that asks for sharded weights."""
SUPERVISED = "BMTOOLS_SUPERVISED"
"""Environment variable of processes that `--processes` started."""


def is_launched() -> bool:
    """Return whether a launcher started this process."""
    return "WORLD_SIZE" in os.environ


def rank() -> int:
    """Return the number of this process among all processes of the launcher, from 0."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Return the number of this process among the processes on its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", rank()))


def world_size() -> int:
    """Return the number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_world_size() -> int:
    """Return the number of processes that the launcher started on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def shard_processes(processes: int) -> int:
    """Return how many processes share one copy of sharded weights.

    If several machines run an equal number of processes (two or more), the processes of one
    machine share a copy, because links between machines are slow. Otherwise all processes share it.

    Args:
        processes: number of processes that share the work.
    """
    local = local_world_size()
    return local if 1 < local < processes and processes % local == 0 else processes


def is_main_process() -> bool:
    """Return whether this process writes results; the others only compute."""
    return os.environ.get("RANK", "0") == "0"
