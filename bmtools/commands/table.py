"""`bmtools table`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, takes_files
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.tables import draw_bars, fitting_columns, print_table, terminal_width
from bmtools.errors import DataError
from bmtools.io.jsonl import read_objects
from bmtools.statistics.table import gather_rows, get_nested, number_keys


@click.command("table", cls=Command, examples=(
    "bmtools table scores.jsonl --columns pppl,bits_per_character",
    "bmtools score-pppl notes.jsonl --model model | bmtools table --bars pppl"),
    meanings={"files": "JSON Lines of any command, plain, .gz or .zst; no file or - means stdin."})
@takes_files
@click.option("--key", default="model", show_default=True, metavar="KEY",
              help="Lines with the same value of this key share a row.")
@click.option("--columns", metavar="KEY,KEY...",
              help="Keys to show; a dot reaches into objects: test_f1.mean. By default, the keys "
                   "of numbers that fit the terminal.")
@click.option("--bars", metavar="KEY", help="Also show the numbers of this key as bars.")
@click.option("--title", help="Title of the table.")
def command(step: CommandStep, files: tuple[str, ...], key: str, columns: str | None,
            bars: str | None, title: str | None) -> None:
    """Show JSON Lines of several models as one table."""
    names = [name.strip() for name in (columns or "").split(",") if name.strip()]
    if columns is not None and not names:
        raise click.UsageError(f"--columns: found {columns!r}, expected at least one key")
    lines = [line for _, line in read_objects(*step.sources(files))]
    known = names or ([bars] if bars else number_keys(lines, key))
    if not known:
        raise DataError(f"no line has {key!r} and a number; choose another key with --key")
    header, rows = [key, *known], gather_rows(lines, key, known)
    if not names:
        cells = [dict(zip(header, row, strict=True)) for row in rows]
        names_as_cells = {name: name for name in header}
        header = fitting_columns([names_as_cells, *cells], terminal_width(), always=(key,))
        rows = [[row[name] for name in header] for row in cells]
    if bars:
        numbers = {str(line[key]): value for line in lines
                   if key in line and (value := get_nested(line, bars)) is not None}
        header = [*header, ""]
        rows = [[*row, bar] for row, bar in zip(
            rows, draw_bars([numbers.get(row[0]) for row in rows]), strict=True)]
    print_table(header, rows, title)
    if left_out := [name for name in known if name not in header]:
        say(f"--columns shows more: {', '.join(left_out)}")
