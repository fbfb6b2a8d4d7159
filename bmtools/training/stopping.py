"""Reasons to end a sitting: a signal of the cluster, or the time that was granted."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@contextmanager
def stops_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` where the process is told to end (SIGTERM) or warned of it (SIGUSR1).

    Outside of the main thread, where Python takes no signals, this does nothing.
    """

    def receive(_number: int, _frame: FrameType | None) -> None:
        stop()

    try:
        before = {number: signal.signal(number, receive) for number in _SIGNALS}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class TimeBudget:
    """The time that a sitting may take.

    Args:
        began: when it began, on the monotonic clock.
        seconds: that it may take; None for any.
    """

    def __init__(self, began: float, seconds: float | None) -> None:
        self._end = began + (float("inf") if seconds is None else seconds)

    def is_spent(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end
