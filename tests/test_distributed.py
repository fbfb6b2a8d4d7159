"""Rank and world size as launchers set them."""

from __future__ import annotations

import pytest

from bmtools.distributed import (
    is_launched,
    is_main_process,
    local_rank,
    local_world_size,
    rank,
    shard_processes,
    world_size,
)


def test_one_process_without_a_launcher() -> None:
    assert not is_launched()
    assert (rank(), local_rank(), world_size(), local_world_size()) == (0, 0, 1, 1)
    assert is_main_process()


def test_a_process_of_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 5, "LOCAL_RANK": 1, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    assert is_launched()
    assert (rank(), local_rank(), world_size(), local_world_size()) == (5, 1, 8, 4)
    assert not is_main_process()


@pytest.mark.parametrize(("processes", "local", "expected"), [
    (8, 8, 8), (16, 8, 8), (4, 2, 2), (8, 1, 8), (12, 8, 12), (2, 4, 2)])
def test_each_machine_keeps_a_copy_of_sharded_weights(monkeypatch: pytest.MonkeyPatch,
                                                      processes: int, local: int,
                                                      expected: int) -> None:
    """Not if each machine runs one process, or if machines run different numbers."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(local))
    assert shard_processes(processes) == expected
