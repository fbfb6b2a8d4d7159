"""`bmtools table`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, sources, takes_files
from bmtools.cli.tables import print_table
from bmtools.io.jsonl import read_objects
from bmtools.scoring.table import gather_rows


@click.command("table", cls=Command, examples=(
    "bmtools table scores.jsonl --columns pppl,bits_per_character",
    "bmtools score-pppl notes.jsonl --model model | bmtools table --columns pppl"),
    groups={"Table": "columns key title"},
    meanings={"files": "JSON Lines of any command, plain, .gz or .zst; none or - means stdin."})
@takes_files
@click.option("--key", default="model", show_default=True, metavar="KEY",
              help="Lines with the same value of this key share a row.")
@click.option("--columns", required=True, metavar="KEY,KEY...",
              help="Keys to show; a dot reaches into objects: test_f1.mean.")
@click.option("--title", help="Title of the table.")
def command(files: tuple[str, ...], key: str, columns: str, title: str | None) -> None:
    """Show JSON Lines of several models as one table."""
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"--columns: found {columns!r}, expected at least one key")
    lines = (line for _, line in read_objects(*sources(files)))
    print_table((key, *names), gather_rows(lines, key, names), title)
