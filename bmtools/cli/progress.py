"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Item = TypeVar("Item")
Line = TypeVar("Line", bound=Mapping[str, Any])
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_MOVES = 0.1
_LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class Mark:
    """How far something is.

    Args:
        done: so many.
        total: of so many; None where that is not known.
        description: what stands beside a bar.
        line: all of it in words.
    """

    done: int
    total: int | None
    description: str
    line: str


def tracked(items: Iterable[Item], doing: str, total: int | None = None) -> Iterator[Item]:
    """Pass items on and show how many went by."""
    started = time.monotonic()

    def tell(count: int, _item: Item) -> Mark:
        rate = count / max(time.monotonic() - started, _LEAST_SECONDS)
        of = f" of {total}" if total else ""
        return Mark(count, total, doing, f"{doing}: {count}{of}, {rate:.1f} a second")

    return _shown(items, doing, tell)


def trained(lines: Iterable[Line], doing: str) -> Iterator[Line]:
    """Pass on the lines that training prints and show the step that they tell of."""

    def tell(_count: int, line: Line) -> Mark | None:
        unit = _unit_of(line)
        if unit is None:
            return None
        done = f"{doing}: {unit} {line[unit]:,} of {line['of']:,}"
        return Mark(line[unit], line["of"], f"{doing}{_loss_of(line)}",
                    f"{done}{_loss_of(line)}{_time_left(line)}")

    return _shown(lines, doing, tell)


def _shown(items: Iterable[Item], doing: str,
           tell: Callable[[int, Item], Mark | None]) -> Iterator[Item]:
    """Pass items on; now and then show what an item and its number tell, if they tell anything."""
    if not sys.stderr.isatty():
        return _watched(items, tell, lambda mark: click.echo(mark.line, err=True),
                        _SECONDS_BETWEEN_LINES)
    return _on_a_terminal(items, doing, tell)


def _on_a_terminal(items: Iterable[Item], doing: str,
                   tell: Callable[[int, Item], Mark | None]) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield from _watched(items, tell, lambda mark: bar.update(
            task, completed=mark.done, total=mark.total, description=mark.description),
                            _SECONDS_BETWEEN_MOVES)


def _watched(items: Iterable[Item], tell: Callable[[int, Item], Mark | None],
             show: Callable[[Mark], object], seconds: float) -> Iterator[Item]:
    shown = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        mark = tell(count, item) if now - shown >= seconds else None
        if mark:
            shown = now
            show(mark)


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
