"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

Item = TypeVar("Item")
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
