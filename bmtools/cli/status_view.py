"""Views of a command's status: its figures over time, as a block for a terminal and as a line."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import TYPE_CHECKING

from bmtools.errors import count_of
from bmtools.io.system import read_system
from bmtools.records import JsonObject
from bmtools.status import Status
from bmtools.values import format_clock, format_duration, format_figure, heading

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

# Rates are those of the last seconds.
_WINDOW_SECONDS = 15.0
# Figures that count from the start; of the first one the rate is shown.
_RATED = ("tokens", "sentences")
_GIB = 2**30
_FEWEST_POINTS, _MOST_POINTS = 8, 48
_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Snapshot:
    """State of a command at a moment.

    Args:
        command: its name.
        seconds: since it began.
        activity: what it is doing, in a few words.
        done: units done.
        total: units in all, where it is known.
        unit: what is counted, in the plural.
        rate: units done in a second.
        seconds_left: until the activity is done, where that can be told.
        figures: latest ones by name.
        rates: growth in a second of figures that count, by name.
        memory: in use, in words.
        losses: means over equal parts of the time so far.
    """

    command: str
    seconds: float
    activity: str = "loading libraries"
    done: int | None = None
    total: int | None = None
    unit: str = ""
    rate: float = 0.0
    seconds_left: float | None = None
    figures: JsonObject = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    memory: str = ""
    losses: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Describe the status in a line."""
        parts = [self.counts(), *self.figure_texts()]
        if self.seconds_left is not None:
            parts.append(f"{format_duration(self.seconds_left)} left")
        return f"{self.activity}: {', '.join(filter(None, parts)) or format_duration(self.seconds)}"

    def block(self) -> RenderableType:
        """Draw the status: activity and time, a bar where the total is known, figures, losses."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        lines: list[RenderableType] = []
        top = Table.grid(expand=True, padding=(0, 1))
        top.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        top.add_column(justify="right", no_wrap=True)
        spinner = Spinner("dots", Text.assemble((self.command, "bold"), f"  {self.activity}"))
        spinner.start_time = 0.0
        top.add_row(spinner, Text(format_clock(self.seconds), "dim"))
        lines.append(top)
        if self.total and self.done is not None:
            left = "-:--:--" if self.seconds_left is None else format_clock(self.seconds_left)
            bar = Table.grid(expand=True, padding=(0, 1))
            bar.add_column(ratio=1)
            bar.add_column(no_wrap=True, justify="right")
            share = min(self.done / self.total, 1)
            bar.add_row(
                ProgressBar(self.total, min(self.done, self.total),
                            style="bright_black", complete_style="green",
                            finished_style="green"),
                Text(f"{share:4.0%}  {self.done:>{len(f'{self.total:,}')},} of "
                     f"{count_of(self.total, self.unit)}  {left} left"))
            lines.append(bar)
        texts = [] if self.total else [self.counts()]
        if shown := " · ".join(filter(None, [*texts, *self.figure_texts(), self.memory])):
            lines.append(Text("  " + shown, "dim", no_wrap=True, overflow="ellipsis"))
        if len(self.losses) >= _FEWEST_POINTS:
            lines.append(_Sparkline("loss", self.losses))
        return Group(*lines)

    def counts(self) -> str:
        """Describe how much is done; empty where nothing is."""
        if not self.done:
            return ""
        if self.total:
            return f"{self.done:,} of {count_of(self.total, self.unit)}"
        return f"{count_of(self.done, self.unit)}, {_per_second(self.rate)} a second"

    def figure_texts(self) -> list[str]:
        """Describe the figures, and the rate of the first one that counts."""
        return [*(f"{heading(name)} {format_figure(name, value)}"
                  for name, value in self.figures.items()
                  if name not in _RATED and value is not None),
                *(f"{_per_second(rate)} {name}/s" for name, rate in self.rates.items())]


class StatusView:
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
        self._figures: JsonObject = {}
        self._window: deque[tuple[float, str, float]] = deque()
        self._losses = _Curve()
        self._lock = threading.Lock()

    def update(self, status: Status) -> None:
        """Take note of a status; called for each item of a stream."""
        if not status.done or status.activity not in self._begun:
            now = time.monotonic()
            if status.activity not in self._begun:  # rates count from here
                self._window.extend((now, status.activity, status.figures[unit])
                                    for unit in _RATED if unit in status.figures)
            self._begun[status.activity] = (now, status.done or 0)
        if (loss := status.figures.get("loss")) is not None and isfinite(loss):
            self._losses.add(loss)
        self._status = status
        self.has_status = True

    def snapshot(self) -> Snapshot:
        """Return the state at this moment; threads may ask at once."""
        with self._lock:
            status, now = self._status, time.monotonic()
            # Figures stay while something without figures is done.
            self._figures = figures = status.figures or self._figures
            unit = next((unit for unit in _RATED if unit in figures), "")
            grown = self._growth(now, status.activity, figures[unit]) if unit else None
            began, first = self._begun.get(status.activity, (now, 0))
            done = (status.done or 0) - first
            seconds = max(now - began, 1e-9)
            left = round(seconds / done * (status.total - first - done), 1) \
                if status.total and done > 0 else None
            return Snapshot(
                self.command, round(now - self.began, 1), status.activity, status.done,
                status.total, status.unit, done / seconds, left, dict(figures),
                {} if grown is None else {unit: grown}, _memory(), list(self._losses.points))

    def _growth(self, now: float, activity: str, count: float) -> float | None:
        """Return how much a count grows in a second, over the last seconds of an activity."""
        window = self._window
        window.append((now, activity, count))
        while window[0][1] != activity or window[0][2] > count \
                or (len(window) > 2 and now - window[1][0] > _WINDOW_SECONDS):
            window.popleft()
        seconds = now - window[0][0]
        grown = count - window[0][2]
        return grown / seconds if grown > 0 and seconds > 0 else None


@dataclass
class _Curve:
    """Curve of few points: means of equally many values each, more of them the longer it gets."""

    points: list[float] = field(default_factory=list)
    _sum: float = 0.0
    _count: int = 0
    _each: int = 1

    def add(self, value: float) -> None:
        """Add a value."""
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count < self._each:
            return
        self.points.append(round(self._sum / self._count, 4))
        self._sum, self._count = 0.0, 0
        if len(self.points) == _MOST_POINTS:
            self.points = [round((one + other) / 2, 4) for one, other in
                           zip(self.points[::2], self.points[1::2], strict=True)]
            self._each *= 2


@dataclass(frozen=True)
class _Sparkline:
    """Small curve in a line, for terminals that have its characters.

    Args:
        name: of the figure.
        points: its values.
    """

    name: str
    points: list[float]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if not options.ascii_only:
            first, last = (format_figure(self.name, self.points[at]) for at in (0, -1))
            before, after = f"  {heading(self.name)} {first} ", f" {last}"
            room = max(options.max_width - len(before) - len(after), 1)
            shown = self.points[::-1][::ceil(len(self.points) / room)][::-1]
            yield Text(f"{before}{sparkline(shown)}{after}", "dim", no_wrap=True,
                       overflow="ellipsis")


def sparkline(points: Sequence[float]) -> str:
    """Draw numbers as bars of one character each, from the least to the largest."""
    least, most = min(points), max(points)
    return "".join(_HEIGHTS[round((value - least) / (most - least or 1) * (len(_HEIGHTS) - 1))]
                   for value in points)


def _per_second(rate: float) -> str:
    return f"{rate:,.{0 if rate >= 10 else 1}f}"


def _memory() -> str:
    """Describe the memory in use: the GPU's where there is one at work."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        if cuda is not None and cuda.is_initialized():
            return f"{cuda.memory_reserved() / _GIB:.1f} GiB of GPU memory"
    except AttributeError:  # torch is being imported
        pass
    pages = read_system("proc/self/statm").split()
    used = int(pages[1]) * os.sysconf("SC_PAGE_SIZE") / _GIB if pages else 0
    return f"{used:.1f} GiB of memory" if used > 0.1 else ""
