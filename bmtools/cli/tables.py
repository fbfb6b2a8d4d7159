"""Tables for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

_NO_EDGE = 10_000


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None,
                words: int = 1, stream: TextIO | None = None) -> None:
    """Print a table; nothing is cut, and cells fold only at the edge of a terminal.

    Args:
        header: names of the columns.
        rows: cells.
        title: words above the table.
        words: so many of the first columns hold words and stand on the left.
        stream: where to; stdout if not said.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Names are text, not markup; only a terminal has an edge to fold cells at.
    stream = stream or sys.stdout
    width = None if stream.isatty() else _NO_EDGE
    Console(file=stream, width=width, markup=False, emoji=False, highlight=False).print(table)
