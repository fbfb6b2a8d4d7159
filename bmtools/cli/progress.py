"""Progress on stderr: a live block on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Self

import click

from bmtools.errors import count_of
from bmtools.io.system import signals_deferred
from bmtools.status import Status
from bmtools.values import format_duration, format_figure, heading

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LINE_SECONDS = 10.0
_BLOCK_SECONDS = 0.125
# Commands that end sooner show no block.
_DELAY_SECONDS = 0.3
_MAX_WIDTH = 100
# Values that are totals since the start; the rate of the first one is shown.
_RATED = ("tokens", "sentences")


class StatusView:
    """Latest status of a command, as a line and as a block.

    Args:
        command: name of the command.

    Attributes:
        began: start time on the monotonic clock.
        has_status: whether any status has arrived.
    """

    def __init__(self, command: str) -> None:
        self.command, self.began, self.has_status = command, time.monotonic(), False
        self._status = Status("loading libraries")
        self._figures: dict[str, float] = {}
        self._begun: dict[str, tuple[float, Status]] = {}

    def update(self, status: Status) -> None:
        """Store a status; called for each item of a stream."""
        if not status.done or status.activity not in self._begun:
            self._begun[status.activity] = time.monotonic(), replace(status)
        # Values of the last status remain visible during activities without values; rates do not.
        self._figures = status.figures or self._figures
        self._status, self.has_status = status, True

    def line(self) -> str:
        """Describe the status: the work done, the latest values, a rate and the time left."""
        status, now = self._status, time.monotonic()
        began, first = self._begun.get(status.activity, (now, status))
        seconds, done = max(now - began, 1e-9), (status.done or 0) - (first.done or 0)
        parts = []
        if status.done and status.total:
            parts.append(f"{status.done:,} of {count_of(status.total, status.unit)}")
        elif status.done:
            parts.append(f"{count_of(status.done, status.unit)}, {_per_second(done / seconds)} a "
                         "second")
        parts += [f"{heading(name)} {format_figure(name, value)}" for name, value
                  in self._figures.items() if name not in _RATED and value is not None]
        unit = next((unit for unit in _RATED if unit in status.figures), "")
        if unit and (grown := status.figures[unit] - first.figures.get(unit, 0)) > 0:
            parts.append(f"{_per_second(grown / seconds)} {unit}/s")
        if status.total and done > 0:
            left = seconds / done * (status.total - (status.done or 0))
            parts.append(f"{format_duration(left)} left")
        return f"{status.activity}: {', '.join(parts) or format_duration(now - self.began)}"

    def block(self) -> RenderableType:
        """Draw the status: its line, and a bar if the total is known."""
        from rich.console import Group
        from rich.constrain import Constrain
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        status = self._status
        line = Table.grid()
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(Spinner("dots", Text.assemble((self.command, "bold"), f"  {self.line()}")))
        parts: list[RenderableType] = [line]
        if status.total and status.done is not None:
            parts.append(ProgressBar(
                status.total, min(status.done, status.total), style="bright_black",
                complete_style="green", finished_style="green"))
        return Constrain(Group(*parts), _MAX_WIDTH)


def _per_second(rate: float) -> str:
    return f"{rate:,.{0 if rate >= 10 else 1}f}"


class Display:
    """Thread that shows a command's status on stderr until `close` or the end of a `with` block.

    On a terminal, `sys.stderr` prints above the block while it is shown.

    Args:
        command: name of the command.

    Attributes:
        view: status of the command.
    """

    def __init__(self, command: str) -> None:
        self.view = StatusView(command)
        self._stderr = sys.stderr
        self._has_block = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        self._live: Live | None = None
        self._terminal = -1
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def seconds(self) -> float:
        """The time since the command began."""
        return time.monotonic() - self.view.began

    def _run(self) -> None:
        if not self._has_block:
            while not self._ended.wait(_LINE_SECONDS):
                click.echo(self.view.line(), file=self._stderr)
            return
        seconds = _DELAY_SECONDS
        while not self._ended.wait(seconds):
            seconds = _BLOCK_SECONDS
            with self._lock:
                if self._live is not None:
                    self._live.refresh()
                # A command that waits for its predecessor in a pipe leaves the terminal to it.
                elif (self.view.has_status or not _reads_pipe()) and self._has_terminal():
                    self._draw()

    def _has_terminal(self) -> bool:
        """Lock the terminal, unless another command of the pipe shows its block there."""
        if self._terminal < 0:
            try:
                self._terminal = os.open(os.ttyname(self._stderr.fileno()),
                                         os.O_WRONLY | os.O_NOCTTY)
            except OSError:  # a terminal of another namespace has no name in this one
                return True
        try:
            fcntl.flock(self._terminal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _draw(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stderr, force_terminal=True, highlight=False, soft_wrap=True)
        with signals_deferred():  # a handler that prints would erase a half-drawn block
            self._live = Live(console=console, auto_refresh=False, transient=True,
                              redirect_stdout=False, get_renderable=self.view.block)
            self._live.start(refresh=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the block during a `with` block."""
        with self._lock:
            was_there = self._live is not None
            try:
                if self._live is not None:
                    with signals_deferred():
                        self._live.stop()
                    self._live = None
                yield
            finally:
                if was_there and not self._ended.is_set():
                    self._draw()  # restarting the old Live would erase the lines above it

    def close(self) -> None:
        """End the thread and erase the block."""
        self._ended.set()
        self._thread.join()
        with self.paused(), suppress(OSError):
            if self._terminal >= 0:
                os.close(self._terminal)  # releases the lock
                self._terminal = -1


def _reads_pipe() -> bool:
    """Return whether stdin is a pipe."""
    try:
        return S_ISFIFO(os.fstat(0).st_mode)
    except OSError:  # closed
        return False
