"""Plain-text tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

_UNLIMITED_WIDTH = 10_000


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None,
                text_columns: int = 1, stream: TextIO | None = None) -> None:
    """Print a table; nothing is truncated, and cells wrap only at the width of a terminal.

    Args:
        header: names of the columns.
        rows: cells.
        title: text above the table.
        text_columns: number of leading columns that are aligned left; others hold numbers.
        stream: stdout by default.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number < text_columns else "right",
                         overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Names are text, not markup.
    stream = stream or sys.stdout
    width = None if stream.isatty() else _UNLIMITED_WIDTH
    Console(file=stream, width=width, markup=False, emoji=False, highlight=False).print(table)
