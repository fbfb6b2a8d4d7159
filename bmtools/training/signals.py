"""Signals that end a session: Ctrl-C, a lost terminal, a scheduler's SIGTERM and its warning."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1)
# Programs such as uv forward a Ctrl-C that the terminal has sent already.
REPEAT_SECONDS = 0.2


@contextmanager
def handled_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal; a Ctrl-C after it raises KeyboardInterrupt.

    Other signals are not counted: `timeout` sends SIGTERM twice, and schedulers send it after
    their warning. Does nothing outside of the main thread, where Python cannot receive signals.
    """
    first_at: float | None = None

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal first_at
        now = time.monotonic()
        if first_at is None:
            first_at = now
            stop()
        elif number == signal.SIGINT and now - first_at > REPEAT_SECONDS:
            raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, handle) for number in _SIGNALS
                  if signal.getsignal(number) != signal.SIG_IGN}  # by nohup
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
