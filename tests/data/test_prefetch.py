"""Results made ahead are those asked for, in order, and no more than allowed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bmtools.data.prefetch import Prefetcher


def waited(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within ten seconds."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return condition()


def test_results_are_made_ahead_and_no_further() -> None:
    made: list[int] = []
    results = Prefetcher(lambda number: made.append(number) or number * number, 3)
    assert results.get(5) == 25
    assert waited(lambda: made == [5, 6, 7, 8])
    assert [results.get(number) for number in (6, 6, 7)] == [36, 36, 49]
    assert waited(lambda: made == [5, 6, 7, 8, 9, 10])
    time.sleep(0.02)
    assert made == [5, 6, 7, 8, 9, 10]


def test_nothing_is_made_beyond_the_end() -> None:
    made: list[int] = []
    results = Prefetcher(lambda number: made.append(number) or number, 3, end=3)
    assert [results.get(number) for number in (0, 1, 2)] == made == [0, 1, 2]
    time.sleep(0.02)
    assert made == [0, 1, 2]


def test_a_jump_begins_anew() -> None:
    made: list[int] = []
    results = Prefetcher(lambda number: made.append(number) or number, 2)
    assert [results.get(number) for number in (4, 0, 1, 9)] == [4, 0, 1, 9]
    assert waited(lambda: made[-3:] == [9, 10, 11])


def test_what_fails_ahead_is_told_when_asked_for() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        if number == 2:
            raise ValueError("used up")
        return number

    results = Prefetcher(make, 5)
    assert [results.get(number) for number in (0, 1)] == [0, 1]
    with pytest.raises(ValueError, match="used up"):
        results.get(2)
    assert made == [0, 1, 2]
