"""Signals that end a session: Ctrl-C, a lost terminal, a scheduler's SIGTERM and its warning."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bmtools.io.system import ENDING_SIGNALS, handling_signals

# Programs such as uv forward a Ctrl-C that the terminal has sent already.
REPEAT_SECONDS = 0.2


@contextmanager
def handled_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` with the first signal; a Ctrl-C after it raises KeyboardInterrupt.

    Other signals are not counted: `timeout` sends SIGTERM twice, and schedulers send it after
    their warning.
    """
    first_at: float | None = None

    def handle(number: int) -> None:
        nonlocal first_at
        now = time.monotonic()
        if first_at is None:
            first_at = now
            stop(number)
        elif number == signal.SIGINT and now - first_at > REPEAT_SECONDS:
            raise KeyboardInterrupt

    with handling_signals(ENDING_SIGNALS, handle):
        yield
