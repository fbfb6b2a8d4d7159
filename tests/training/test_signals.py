"""Signals that end a session."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from bmtools.training import signals
from bmtools.training.signals import handled_signals


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_first_signal_asks_once(number: int) -> None:
    calls = []
    before = signal.getsignal(number)
    with handled_signals(calls.append):
        send(number)
        send(number)
    assert calls == [number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_later_ctrl_c_interrupts(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "REPEAT_SECONDS", 0.01)
    reached = False
    with handled_signals(lambda _: None), pytest.raises(KeyboardInterrupt):
        send(first)
        reached = True
        time.sleep(0.02)
        send(signal.SIGINT)
    assert reached


@pytest.mark.parametrize("later", [signal.SIGTERM, signal.SIGUSR1])
def test_other_repeats_do_not(later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends SIGTERM twice, and a scheduler sends it after its warning."""
    monkeypatch.setattr(signals, "REPEAT_SECONDS", 0.0)
    with handled_signals(lambda _: None):
        send(signal.SIGUSR1)
        send(later)
        send(later)


def test_another_thread_receives_none() -> None:
    done = []

    def work() -> None:
        with handled_signals(lambda _: None):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
