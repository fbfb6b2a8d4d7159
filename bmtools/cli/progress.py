"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Item = TypeVar("Item")
Line = TypeVar("Line", bound=Mapping[str, Any])
_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1
_EPSILON_SECONDS = 1e-9


@dataclass(frozen=True)
class Progress:
    """Progress at one moment.

    Args:
        done: items, steps or epochs.
        total: of how many; None where that is not known.
        description: text beside a bar.
        line: the same as one plain line.
    """

    done: int
    total: int | None
    description: str
    line: str


ReadProgress = Callable[[int, Item], Progress | None]


def tracked(items: Iterable[Item], activity: str, total: int | None = None) -> Iterator[Item]:
    """Yield items and show how many have passed, and how fast."""
    start = time.monotonic()

    def progress(count: int, _item: Item) -> Progress:
        rate = count / max(time.monotonic() - start, _EPSILON_SECONDS)
        of = f" of {total}" if total else ""
        return Progress(count, total, activity, f"{activity}: {count}{of}, {rate:.1f} a second")

    return _show(items, activity, progress)


def tracked_metrics(lines: Iterable[Line], activity: str) -> Iterator[Line]:
    """Yield the lines of metrics that training reports, and show their step or epoch."""

    def progress(_count: int, line: Line) -> Progress | None:
        unit = next((unit for unit in ("step", "epoch") if unit in line and "of" in line), None)
        if unit is None:
            return None
        loss = f", loss {line['loss']:.3f}" if "loss" in line else ""
        return Progress(line[unit], line["of"], activity + loss,
                        f"{activity}: {unit} {line[unit]:,} of {line['of']:,}{loss}"
                        f"{_time_left(line.get('seconds_left'))}")

    return _show(lines, activity, progress)


def _show(items: Iterable[Item], activity: str, progress: ReadProgress[Item]) -> Iterator[Item]:
    """Yield items, and show progress when some seconds have passed since the last time."""
    with ExitStack() as stack:
        bar, seconds = None, _LINE_SECONDS
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as ProgressBar

            bar = stack.enter_context(ProgressBar(console=Console(stderr=True), transient=True))
            task, seconds = bar.add_task(activity, total=None), _BAR_SECONDS
        shown = time.monotonic()
        for count, item in enumerate(items, 1):
            yield item
            now = time.monotonic()
            found = progress(count, item) if now - shown >= seconds else None
            if not found:
                continue
            shown = now
            if bar:
                bar.update(task, completed=found.done, total=found.total,
                           description=found.description)
            else:
                click.echo(found.line, err=True)


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f", {seconds / 60:.0f} min left" if seconds >= 60 else f", {seconds:.0f} s left"
