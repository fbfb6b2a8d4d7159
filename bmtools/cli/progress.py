"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

import click

Item = TypeVar("Item")
Progress = tuple[int, int | None, str, str]
"""Items, steps or epochs done; of how many; text beside a bar; the same as one plain line."""
_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1
_EPSILON_SECONDS = 1e-9


def tracked(items: Iterable[Item], activity: str, total: int | None = None,
            read_progress: Callable[[Item, str], Progress | None] | None = None) -> Iterator[Item]:
    """Yield items and show how many have passed, and how fast.

    Args:
        items: of any kind.
        activity: a word or two.
        total: number of items, where it is known.
        read_progress: reads the progress from an item and the activity instead; None where it
            has none.
    """
    with ExitStack() as stack:
        bar, seconds = None, _LINE_SECONDS
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as ProgressBar

            bar = stack.enter_context(ProgressBar(console=Console(stderr=True), transient=True))
            task, seconds = bar.add_task(activity, total=None), _BAR_SECONDS
        start = shown = time.monotonic()
        for count, item in enumerate(items, 1):
            yield item
            now = time.monotonic()
            if now - shown < seconds:
                continue
            rate = count / max(now - start, _EPSILON_SECONDS)
            of = f" of {total}" if total else ""
            progress = read_progress(item, activity) if read_progress else (
                count, total, activity, f"{activity}: {count}{of}, {rate:.1f} a second")
            if progress is None:
                continue
            shown = now
            done, known_total, description, line = progress
            if bar:
                bar.update(task, completed=done, total=known_total, description=description)
            else:
                click.echo(line, err=True)


def read_metrics(line: Mapping[str, Any], activity: str) -> Progress | None:
    """Read the step or epoch from a line of metrics that training reports."""
    unit = next((unit for unit in ("step", "epoch") if unit in line and "of" in line), None)
    if unit is None:
        return None
    loss = f", loss {line['loss']:.3f}" if "loss" in line else ""
    left, seconds = "", line.get("seconds_left")
    if seconds is not None:
        left = f", {seconds / 60:.0f} min left" if seconds >= 60 else f", {seconds:.0f} s left"
    return (line[unit], line["of"], activity + loss,
            f"{activity}: {unit} {line[unit]:,} of {line['of']:,}{loss}{left}")
