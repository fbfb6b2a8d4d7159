"""Tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

_NO_EDGE = 10_000


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None,
                words: int = 1) -> None:
    """Print a table; nothing is cut, and cells fold only at the edge of a terminal.

    Args:
        header: names of the columns.
        rows: cells.
        title: words above the table.
        words: so many of the first columns hold words and stand on the left.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Names are text, not markup; only a terminal has an edge to fold cells at.
    width = None if sys.stdout.isatty() else _NO_EDGE
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)
