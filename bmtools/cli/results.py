"""Results on stdout, as tables on a terminal and JSON Lines elsewhere, and a closing sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from bmtools.cli.progress import elapsed_seconds, hide_status, status_paused
from bmtools.cli.record_stream import write_line_stream
from bmtools.cli.status_file import note_closing
from bmtools.cli.tables import (
    alike,
    fitting_columns,
    flattened,
    print_lines,
    terminal_width,
)
from bmtools.distributed import is_main_process
from bmtools.io.output import STDOUT, encode_lines, write_records
from bmtools.io.provenance.step import noting_licences
from bmtools.status import counted
from bmtools.values import format_duration, format_figure, heading

Function = TypeVar("Function", bound=Callable[..., Any])
Line = Mapping[str, Any]
_AS_TABLE = "bmtools.as_table"
# Lines with one of these keys are rows of a table.
_ROWS = {"split", "step", "epoch", "best_epoch"}


def _remember(ctx: click.Context, _param: click.Parameter, as_table: bool | None) -> None:
    ctx.meta[_AS_TABLE] = as_table


prints_results: Callable[[Function], Function] = click.option(
    "--table/--json", "as_table", default=None, expose_value=False, callback=_remember,
    help="Print tables, or JSON Lines; without either, tables on a terminal.")
"""Add `--table/--json` to a command that reports; it prints by `print_results`."""


def as_tables() -> None:
    """Show results as tables, as `--table` does."""
    click.get_current_context().meta[_AS_TABLE] = True


def shows_tables(output: str = STDOUT) -> bool:
    """Tell whether results go to stdout as tables rather than JSON Lines."""
    as_table = click.get_current_context().meta.get(_AS_TABLE)
    if as_table is None:
        return output == STDOUT and sys.stdout.isatty()
    return bool(as_table)


def print_results(lines: Iterable[Line], output: str = STDOUT,
                  print_tables: Callable[[Sequence[Line]], object] = print_lines) -> list[Line]:
    """Print what a command reports, as tables or as JSON Lines, and return it.

    Args:
        lines: each is written as soon as it comes, if not in a table.
        output: file that gets JSON Lines in any case; stdout for `-`.
        print_tables: prints all lines at once for people.
    """
    kept: list[Line] = []

    def keep(line: Line) -> Line:
        kept.append(line)
        return line

    if output != STDOUT:
        write_records(map(keep, lines), output, flush=True)
    elif shows_tables():
        kept.extend(lines)
    else:
        for line in lines:
            _write_line(keep(line))
    if shows_tables(output):
        with status_paused():
            print_tables(kept)
            sys.stdout.flush()
    return kept


def print_reports(lines: Iterable[Line]) -> list[Line]:
    """Print what a command reports while it works, line by line, and return it."""
    kept: list[Line] = []
    print_line = _GrowingTable().print if shows_tables() else _write_line
    for line in lines:
        kept.append(line)
        print_line(line)
    return kept


def write_stream(records: Iterable[Any], output: str, activity: str = "",
                 unit: str = "records") -> int:
    """Write the records that a command produces, count them on stderr, and return how many.

    Args:
        records: written as JSON Lines wherever they go.
        output: file, or stdout for `-`; on a terminal their lines take the place of the status.
        activity: a few words for the status; empty where their producer sets it.
        unit: what they are, in the plural.
    """
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for record in counted(records, activity, unit=unit) if activity else records:
            yield encode_lines([record])
            count += 1

    write_lines(lines(), output)
    return count


def write_lines(lines: Iterable[bytes], output: str) -> None:
    """Write the lines of a pass, as `write_stream` writes records."""
    if output == STDOUT and sys.stdout.isatty():
        lines = _hiding_status(lines)
    write_line_stream(noting_licences(lines), output)


def finish(what: str, next_command: str = "") -> None:
    """Print the sentence that ends a command: what it did, how long it took, what comes next.

    Args:
        what: what was written, and the figure that matters.
        next_command: to type next.
    """
    if is_main_process():
        hint = f"; next: {next_command}" if next_command else ""
        sentence = f"{what} in {format_duration(elapsed_seconds())}{hint}"
        click.echo(f"bmtools: {sentence}", err=True)
        note_closing(sentence)


def _hiding_status(lines: Iterable[bytes]) -> Iterator[bytes]:
    for some in lines:
        hide_status()
        yield some


def _write_line(line: Line) -> None:
    with status_paused():
        write_records([line], flush=True)


def _in_words(line: Line) -> str:
    """Describe an evaluation between rows."""
    found = line.get("evaluate", line)
    what = "held-out text" if "evaluate" in line else f"text to retain, {line['retain']}"
    scores = ", ".join(f"{name} {format_figure(name, found[name])}"
                       for name in ("loss", "accuracy"))
    return f"{'':8}{what}: {scores}"


class _GrowingTable:
    """Table whose rows are printed as they come; a line of another kind opens another one."""

    def __init__(self) -> None:
        self._first: Line | None = None
        self._widths: dict[str, int] = {}

    def print(self, line: Line) -> None:
        """Print a line: as a row, in words, or as names and values."""
        with status_paused():
            if "step" in line and {"evaluate", "retain"} & line.keys():
                print(_in_words(line))
            elif not _ROWS & line.keys() or "stopped" in line:
                if self._first is not None:
                    print()
                # Rows above have shown the last report; of an evaluation the scores are left.
                print_lines([{**line, "evaluate": line.get("evaluate", {}).get("evaluate", []),
                              "last": []} if "checkpoint" in line else line])
            else:
                self._print_row(line)
            sys.stdout.flush()

    def _print_row(self, line: Line) -> None:
        cells = flattened({name: value for name, value in line.items() if name != "of"})
        # A phase with another objective has other figures.
        if self._first is None or not alike(self._first, line) or (
                line.get("phase") != self._first.get("phase")
                and line.keys() != self._first.keys()):
            if self._first is not None:
                print()
            self._first = line
            names = {name: heading(name) for name in cells}
            # Later numbers may be a little longer than the first.
            self._widths = {
                name: max(len(names[name]), len(cells[name]), 6)
                for name in fitting_columns([cells, names], terminal_width(), one_line=True)}
            print(self._row(names))
        print(self._row(cells))

    def _row(self, cells: Mapping[str, str]) -> str:
        return "  ".join(f"{cells.get(name, ''):>{width}}" for name, width in self._widths.items())
