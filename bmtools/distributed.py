"""Rank and world size of this process, from the environment that a launcher sets.

torchrun, Accelerate's launcher and `--processes` set the same variables; without a launcher one
process does all the work. Kept free of torch, so that commands can ask before anything heavy loads.
"""

from __future__ import annotations

import os

SHARD = "BMTOOLS_SHARD"
"""Environment variable that asks for sharded weights."""
SUPERVISED = "BMTOOLS_SUPERVISED"
"""Environment variable of processes that `--processes` started."""


def is_launched() -> bool:
    """Tell whether a launcher started this process."""
    return "WORLD_SIZE" in os.environ


def rank() -> int:
    """Return the number of this process among all of the launcher's, from 0."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Return the number of this process among those on its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", rank()))


def world_size() -> int:
    """Return the number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_world_size() -> int:
    """Return the number of processes that the launcher started on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def shard_processes(processes: int) -> int:
    """Return how many processes share one copy of sharded weights.

    Those of one machine, where several machines run the same number of several processes; links
    between machines are slow, so each keeps a copy. Else all.

    Args:
        processes: that share the work.
    """
    local = local_world_size()
    return local if 1 < local < processes and processes % local == 0 else processes


def is_main_process() -> bool:
    """Tell whether this process writes results; the others only compute."""
    return os.environ.get("RANK", "0") == "0"
