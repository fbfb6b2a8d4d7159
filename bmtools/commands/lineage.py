"""`bmtools lineage`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from bmtools.cli.options import Command, writes_records
from bmtools.cli.parameters import InputDirectory, InputPath
from bmtools.cli.results import finish
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of
from bmtools.io.output import STDOUT, encode_lines, open_output


@click.command("lineage", cls=Command, examples=(
    "bmtools lineage model",
    "bmtools lineage scores.jsonl --search . --format json -o lineage.json"))
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...",
                type=InputPath(Path, exists=False))
@click.option("--search", multiple=True, metavar="DIR",
              type=InputDirectory(is_hashed=False),
              help="Also search this directory and its subdirectories for inputs; repeat it.")
@click.option("--format", "form", type=click.Choice(["tree", "json"]),
              default="tree", show_default=True,
              help="A tree for people, or all records as JSON.")
@writes_records()
def command(step: CommandStep, paths: tuple[Path, ...], search: tuple[Path, ...], form: str,
            output: str) -> None:
    """Trace outputs to their first inputs: commands, hashes, licences, hours.

    PATHS are checkpoints, vocabularies, shards, corpora, predictions or scores that bmtools wrote,
    or directories of these.
    Shows each step that led to them with its command, date, duration, tokens, seed, licence and
    versions, and the totals of all steps. Steps are linked by the hashes in bmtools.json and
    FILE.bmtools.json. Only sources larger than a gibibyte are identified by name instead of hash.
    Inputs that are not found are listed with their hashes.
    """
    from bmtools.cli.tables import print_renderable
    from bmtools.study.lineages.lineage import trace
    from bmtools.study.lineages.views import lineage_json, lineage_tree, total_lines

    lineage = trace(paths, search)
    with open_output(output) as stream:
        if form == "json":
            stream.write(encode_lines([lineage_json(lineage)]))
        else:
            text = sys.stdout if output == STDOUT else io.StringIO()
            seen: set[str] = set()
            for root in lineage.ends:
                print_renderable(lineage_tree(lineage, root, seen), text)
            text.write("\n".join(["", *total_lines(lineage), ""]))
            if isinstance(text, io.StringIO):
                stream.write(text.getvalue().encode())
    missing = len(lineage.unresolved)
    links = count_of(len(lineage.edges), "links")
    finish(step, f"{count_of(len(lineage.nodes), 'contents')} and {links}" + (
        f"; {missing} not found, search more with --search DIR" if missing else ""))
