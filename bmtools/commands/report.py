"""`bmtools report`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.closing import after_report
from bmtools.cli.options import Command, OutputFile, takes_overwrite
from bmtools.cli.results import finish


@click.command("report", cls=Command, examples=(
    "bmtools report model mrr.jsonl -o report.html",
    "bmtools report out -o report.html --title 'Italian study'"),
    groups={"Page": "title output"})
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@click.option("--title", default="", metavar="TEXT",
              help="Title of the page; the names of the paths without.")
@click.option("-o", "--output", required=True, type=OutputFile(Path), metavar="FILE.html",
              help="Page to write.")
@takes_overwrite
def command(paths: tuple[str, ...], title: str, output: Path) -> None:
    """Draw a run or a whole study on one page that opens without a network.

    PATHS are checkpoints, unfinished runs, what training, the score commands, describe,
    compare-vocab and compare-models print, and directories of these. The page shows what is there:
    sizes, losses over tokens, scores with intervals over the size of the corpus, fragmentation,
    ranks, tasks, masking, embedding space, lineage and energy, each with a table of all figures.
    """
    from bmtools.reports.report import write_report

    study, sections = write_report(paths, output, title)
    finish(after_report(study.skipped, sections, output))
