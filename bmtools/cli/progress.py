"""Progress on stderr: a live block on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Any, Self, TextIO

import click

from bmtools.cli.status_view import StatusView
from bmtools.io.system import signals_deferred

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_LINE_SECONDS = 10.0
_BLOCK_SECONDS = 0.125
# Commands that are done sooner show no block.
_DELAY_SECONDS = 0.3
_MAX_WIDTH = 100


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


class Display:
    """Thread that shows a command's status on stderr until a `with` block ends, or `close`.

    Args:
        command: its name.

    Attributes:
        view: status of the command.
    """

    def __init__(self, command: str) -> None:
        self.view = StatusView(command)
        self._stderr = sys.stderr
        self._block = Block(sys.stderr, lambda: self.view.snapshot().block()) \
            if is_terminal(sys.stderr) else None
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
        seconds = _LINE_SECONDS
        if self._block is not None:
            if self._ended.wait(_DELAY_SECONDS):
                return
            seconds = _BLOCK_SECONDS
        while True:
            if self._block is None:
                if self.view.began + seconds <= time.monotonic():
                    click.echo(self.view.snapshot().line(), file=self._stderr)
            # A command that waits for the one before it in a pipe leaves the terminal to that one.
            elif self.view.has_status or not _reads_pipe():
                self._block.show()
            if self._ended.wait(seconds):
                return

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the block for a while."""
        if self._block is None:
            yield
        else:
            with self._block.erased():
                yield

    def close(self) -> None:
        """End the thread and erase the block."""
        self._ended.set()
        self._thread.join()
        if self._block is not None:
            self._block.close()


class Block:
    """Live block below what stderr prints; `sys.stderr` prints above it while it is there.

    Args:
        stream: a terminal.
        draw: returns what the block shows now.
        width: most characters of a line.
    """

    def __init__(self, stream: TextIO, draw: Callable[[], RenderableType],
                 width: int = _MAX_WIDTH) -> None:
        self._stream = stream
        self._draw_lines = draw
        self._width = width
        self._live: Live | None = None
        self._lock = threading.RLock()
        try:
            self._terminal = os.open(os.ttyname(stream.fileno()), os.O_WRONLY | os.O_NOCTTY)
        except OSError:  # a terminal of another namespace has no name in this one
            self._terminal = -1

    def show(self) -> None:
        """Draw the block anew, unless another command of a pipe has one on the same terminal."""
        with self._lock:
            if self._live is not None:
                self._live.refresh()
                return
            if self._terminal >= 0:
                try:
                    fcntl.flock(self._terminal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return
            self._draw()
            self._lines_above = _LinesAbove(self._stream, self._print_above)
            sys.stderr = self._lines_above

    def _draw(self) -> None:
        from rich.live import Live

        with signals_deferred():  # a handler that prints would erase a block that is half drawn
            self._live = Live(console=live_console(self._stream, self._width), auto_refresh=False,
                              transient=True, redirect_stdout=False, redirect_stderr=False,
                              get_renderable=self._draw_lines)
            self._live.start(refresh=True)

    def _erase(self) -> None:
        with signals_deferred():
            if self._live is not None:
                self._live.stop()
            self._live = None

    def _print_above(self, text: str) -> None:
        with self.erased():
            self._stream.write(text)
            self._stream.flush()

    @contextmanager
    def erased(self) -> Iterator[None]:
        """Take the block away for a while."""
        with self._lock:
            was_there = self._live is not None
            try:
                self._erase()
                yield
            finally:
                if was_there:
                    self._draw()  # a Live that starts again erases the lines above it

    def close(self) -> None:
        """Take the block away for good."""
        with self._lock:
            if self._live is not None:
                self._erase()
                if sys.stderr is self._lines_above:
                    sys.stderr = self._stream
            if self._terminal >= 0:
                os.close(self._terminal)  # which unlocks it
                self._terminal = -1


def live_console(stream: TextIO, width: int = _MAX_WIDTH) -> Console:
    """Make the console of a terminal, which is not too wide to be read.

    Args:
        stream: the terminal.
        width: most characters of a line.
    """
    from rich.console import Console

    console = Console(file=stream, force_terminal=True, highlight=False)
    console.width = min(console.width, width)
    return console


class _LinesAbove:
    """Stand-in for stderr that passes on whole lines while a block is below them.

    Args:
        stream: that it wraps.
        print_lines: prints text that ends with a line's end.
    """

    def __init__(self, stream: TextIO, print_lines: Any) -> None:
        self._stream = stream
        self._print_lines = print_lines
        self._rest = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Print the lines that are complete, and keep the rest."""
        if not isinstance(text, str):
            raise TypeError(f"found {type(text).__name__}, expected text")
        lines, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._print_lines(lines + end)
        return len(text)


def _reads_pipe() -> bool:
    """Tell whether stdin is a pipe."""
    try:
        return S_ISFIFO(os.fstat(0).st_mode)
    except OSError:  # closed
        return False

