"""`bmtools report`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, OutputFile
from bmtools.cli.parameters import InputPath
from bmtools.cli.results import finish
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of


@click.command("report", cls=Command, examples=(
    "bmtools report base model scores.jsonl -o report.html",
    "bmtools report . -o report.html --title 'Italian study'"))
@click.argument("paths", nargs=-1, required=True, type=InputPath(), metavar="PATH...")
@click.option("--title", default="", metavar="TEXT",
              help="Title of the page; the names of the paths without.")
@click.option("-o", "--output", required=True, type=OutputFile(), metavar="FILE.html",
              help="Page to write.")
def command(step: CommandStep, paths: tuple[str, ...], title: str, output: str) -> None:
    """Draw a run or a whole study on one page that opens without a network.

    PATHS are checkpoints, unfinished runs, what training, the score commands, describe,
    compare-vocab and compare-models print, and directories of these. The page shows what is there:
    sizes, losses over tokens, scores with intervals over the size of the corpus, fragmentation,
    ranks, tasks, masking, embedding space, lineage and energy, each with a table of all figures.
    """
    from bmtools.study.reports.report import write_report

    page = write_report(paths, output, title)
    charts = count_of(page["charts"], "charts")
    finish(step, f"wrote {output}, {page['bytes'] / 1000:,.0f} kB with {charts}: "
                 f"{', '.join(page['sections']).lower()}")
