"""Progress on stderr: a live block on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Any, TextIO

import click

from bmtools.cli.figures import format_clock, format_duration, format_figure, heading
from bmtools.distributed import is_main_process
from bmtools.io.system import read_system
from bmtools.status import Status, watching_status

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LINE_SECONDS = 10.0
_BLOCK_SECONDS = 0.125
# Commands that are done sooner show no block.
_DELAY_SECONDS = 0.3
# Rates are those of the last seconds.
_WINDOW_SECONDS = 15.0
_MAX_WIDTH = 100
# Figures that count from the start; of the first one the rate is shown.
_RATED = ("tokens", "sentences")
_GIB = 2**30


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def showing_status(command: str) -> Iterator[None]:
    """Show on stderr what a command is doing, until it ends or `hide_status` is called."""
    global _display
    if not is_main_process():
        yield
        return
    before, _display = _display, _Display(command)
    try:
        with watching_status(_display.watch):
            yield
    finally:
        _display.close()
        _display = before


@contextmanager
def status_paused() -> Iterator[None]:
    """Take the live block off the terminal while stdout writes there."""
    if _display is None or not sys.stdout.isatty():
        yield
    else:
        with _display.paused():
            yield


def hide_status() -> None:
    """Show no status for the rest of the command: others use the terminal."""
    if _display is not None:
        _display.close()


def elapsed_seconds() -> float:
    """Return the time since the command began."""
    return time.monotonic() - (_display.view.began if _display else time.monotonic())


class _Display:
    """Thread that shows a command's status."""

    def __init__(self, command: str) -> None:
        self.view = _View(command)
        self._stderr = sys.stderr
        self._block = _Block(sys.stderr, self.view) if is_terminal(sys.stderr) else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def watch(self, status: Status) -> None:
        """Take note of a status."""
        self.view.update(status)

    def _run(self) -> None:
        seconds = _LINE_SECONDS
        if self._block is not None:
            if self._ended.wait(_DELAY_SECONDS):
                return
            seconds = _BLOCK_SECONDS
        while True:
            if self._block is None:
                if self.view.began + seconds <= time.monotonic():
                    click.echo(self.view.line(), file=self._stderr)
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


class _View:
    """Latest status of a command, as figures over time.

    Args:
        command: its name.

    Attributes:
        began: when, on the monotonic clock.
        has_status: whether any status came yet.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.began = time.monotonic()
        self._status = Status("loading libraries")
        self.has_status = False
        self._begun: dict[str, tuple[float, int]] = {}
        self._figures: dict[str, Any] = {}
        self._window: deque[tuple[float, str, float]] = deque()

    def update(self, status: Status) -> None:
        """Take note of a status; called for each item of a stream."""
        if not status.done or status.activity not in self._begun:
            now = time.monotonic()
            if status.activity not in self._begun:  # rates count from here
                self._window.extend((now, status.activity, status.figures[unit])
                                    for unit in _RATED if unit in status.figures)
            self._begun[status.activity] = (now, status.done or 0)
        self._status = status
        self.has_status = True

    def line(self) -> str:
        """Describe the status in a line."""
        status = self._status
        parts = [self._counts(status), *self._figure_texts(status)]
        seconds = self._seconds_left(status)
        if seconds is not None:
            parts.append(f"{format_duration(seconds)} left")
        return f"{status.activity}: {', '.join(filter(None, parts)) or self._elapsed()}"

    def block(self) -> RenderableType:
        """Draw the status: activity and time, a bar where the total is known, figures."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        status = self._status
        lines: list[RenderableType] = []
        top = Table.grid(expand=True, padding=(0, 1))
        top.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        top.add_column(justify="right", no_wrap=True)
        spinner = Spinner("dots", Text.assemble((self.command, "bold"), f"  {status.activity}"))
        spinner.start_time = self.began
        top.add_row(spinner, Text(format_clock(time.monotonic() - self.began), "dim"))
        lines.append(top)
        if status.total and status.done is not None:
            seconds = self._seconds_left(status)
            bar = Table.grid(expand=True, padding=(0, 1))
            bar.add_column(ratio=1)
            bar.add_column(no_wrap=True, justify="right")
            share = min(status.done / status.total, 1)
            bar.add_row(
                ProgressBar(status.total, min(status.done, status.total),
                            style="bright_black", complete_style="green",
                            finished_style="green"),
                Text(f"{share:4.0%}  {status.done:>{len(f'{status.total:,}')},} of "
                     f"{status.total:,} {status.unit}"
                     f"  {'-:--:--' if seconds is None else format_clock(seconds)} left"))
            lines.append(bar)
        texts = self._figure_texts(status)
        if not status.total and (counts := self._counts(status)):
            texts = [counts, *texts]
        texts += _memory()
        if texts:
            lines.append(Text("  " + " · ".join(texts), "dim", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)

    def _elapsed(self) -> str:
        return format_duration(time.monotonic() - self.began)

    def _counts(self, status: Status) -> str:
        if not status.done:
            return ""
        if status.total:
            return f"{status.done:,} of {status.total:,} {status.unit}"
        began, first = self._begun[status.activity]
        rate = (status.done - first) / max(time.monotonic() - began, 1e-9)
        return f"{status.done:,} {status.unit}, {rate:,.{0 if rate >= 10 else 1}f} a second"

    def _figure_texts(self, status: Status) -> list[str]:
        """Describe the latest figures; they stay while something without figures is done."""
        self._figures = status.figures or self._figures
        figures = dict(self._figures)
        unit = next((unit for unit in _RATED if unit in figures), "")
        count = figures.pop(unit, None)
        texts = [f"{heading(name)} {format_figure(name, value)}"
                 for name, value in figures.items() if value is not None]
        rate = None if count is None else self._rate(status.activity, count)
        return texts if rate is None else \
            [*texts, f"{rate:,.{0 if rate >= 10 else 1}f} {unit}/s"]

    def _rate(self, activity: str, count: float) -> float | None:
        """Return how much a count grows in a second, over the last seconds of an activity."""
        now, window = time.monotonic(), self._window
        window.append((now, activity, count))
        while window[0][1] != activity or window[0][2] > count \
                or (len(window) > 2 and now - window[1][0] > _WINDOW_SECONDS):
            window.popleft()
        seconds = now - window[0][0]
        grown = count - window[0][2]
        return grown / seconds if grown > 0 and seconds > 0 else None

    def _seconds_left(self, status: Status) -> float | None:
        if not status.done or not status.total:
            return None
        began, first = self._begun[status.activity]
        done = status.done - first
        return (time.monotonic() - began) / done * (status.total - status.done) if done > 0 \
            else None


class _Block:
    """Live block below what stderr prints; `sys.stderr` prints above it while it is there.

    Args:
        stream: a terminal.
        view: draws the block.
    """

    def __init__(self, stream: TextIO, view: _View) -> None:
        self._stream = stream
        self._view = view
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
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream, force_terminal=True, highlight=False)
        console.width = min(console.width, _MAX_WIDTH)
        self._live = Live(console=console, auto_refresh=False, transient=True,
                          redirect_stdout=False, redirect_stderr=False,
                          get_renderable=self._view.block)
        self._live.start(refresh=True)

    def _print_above(self, text: str) -> None:
        with self.erased():
            self._stream.write(text)
            self._stream.flush()

    @contextmanager
    def erased(self) -> Iterator[None]:
        """Take the block away for a while."""
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                live.stop()
            try:
                yield
            finally:
                if live is not None:
                    self._draw()  # a Live that starts again erases the lines above it

    def close(self) -> None:
        """Take the block away for good."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None
                if sys.stderr is self._lines_above:
                    sys.stderr = self._stream
            if self._terminal >= 0:
                os.close(self._terminal)  # which unlocks it
                self._terminal = -1


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


def _memory() -> Iterator[str]:
    """Yield the memory in use: the GPU's where there is one at work."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        if cuda is not None and cuda.is_initialized():
            yield f"{cuda.memory_reserved() / _GIB:.1f} GiB of GPU memory"
            return
    except AttributeError:  # torch is being imported
        pass
    pages = read_system("proc/self/statm").split()
    if pages and int(pages[1]) * os.sysconf("SC_PAGE_SIZE") > _GIB / 10:
        yield f"{int(pages[1]) * os.sysconf('SC_PAGE_SIZE') / _GIB:.1f} GiB of memory"


_display: _Display | None = None
