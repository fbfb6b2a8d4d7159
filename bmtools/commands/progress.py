"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import click

Item = TypeVar("Item")
Line = TypeVar("Line", bound=Mapping[str, Any])
_SECONDS_BETWEEN_LINES = 10.0


def tracked(items: Iterable[Item], doing: str, total: int | None = None) -> Iterator[Item]:
    """Pass items on and show how many went by."""
    if sys.stderr.isatty():
        yield from _on_a_terminal(items, doing, total)
    else:
        yield from _in_plain_lines(items, doing, total)


def _on_a_terminal(items: Iterable[Item], doing: str, total: int | None) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total, description=doing)


def _in_plain_lines(items: Iterable[Item], doing: str, total: int | None) -> Iterator[Item]:
    started = told = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - told >= _SECONDS_BETWEEN_LINES:
            told = now
            of = f" of {total}" if total else ""
            click.echo(f"{doing}: {count}{of}, {count / (now - started):.1f} a second", err=True)


def trained(lines: Iterable[Line], doing: str) -> Iterator[Line]:
    """Pass on the lines that training prints and show the step that they tell of."""
    if sys.stderr.isatty():
        yield from _steps_on_a_terminal(lines, doing)
    else:
        yield from _steps_in_plain_lines(lines, doing)


def _steps_on_a_terminal(lines: Iterable[Line], doing: str) -> Iterator[Line]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        for line in lines:
            yield line
            unit = _unit_of(line)
            if unit:
                bar.update(task, completed=line[unit], total=line["of"],
                           description=f"{doing}{_loss_of(line)}")


def _steps_in_plain_lines(lines: Iterable[Line], doing: str) -> Iterator[Line]:
    told = time.monotonic()
    for line in lines:
        yield line
        unit = _unit_of(line)
        if unit and time.monotonic() - told >= _SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            click.echo(f"{doing}: {unit} {line[unit]:,} of {line['of']:,}{_loss_of(line)}"
                       f"{_time_left(line)}", err=True)


def _unit_of(line: Mapping[str, Any]) -> str | None:
    """Say what a line counts; nothing where it does not say how far training is."""
    return next((unit for unit in ("step", "epoch") if unit in line and "of" in line), None)


def _loss_of(line: Mapping[str, Any]) -> str:
    return f", loss {line['loss']:.3f}" if "loss" in line else ""


def _time_left(line: Mapping[str, Any]) -> str:
    seconds = line.get("seconds_left")
    if seconds is None:
        return ""
    return f", {seconds / 60:.0f} min left" if seconds >= 60 else f", {seconds:.0f} s left"
