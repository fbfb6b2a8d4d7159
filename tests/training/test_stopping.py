"""Signals and clocks that end a sitting."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from bmtools.training.stopping import TimeBudget, stops_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_asks_and_afterwards_means_what_it_meant(number: signal.Signals) -> None:
    asked: list[int] = []
    before = signal.signal(number, lambda *_: asked.append(0))
    try:
        with stops_on_signals(lambda: asked.append(1)):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert asked == [1, 1, 0]
    finally:
        signal.signal(number, before)


def test_threads_other_than_the_first_take_no_signals() -> None:
    entered = []

    def enter() -> None:
        with stops_on_signals(lambda: None):
            entered.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered


def test_a_budget_counts_from_the_beginning_of_the_sitting() -> None:
    now = time.monotonic()
    assert TimeBudget(now - 10, 9).is_spent()
    assert not TimeBudget(now - 10, 60).is_spent()
    assert not TimeBudget(now - 1e9, float("inf")).is_spent()
    assert not TimeBudget(now - 1e9, None).is_spent()
