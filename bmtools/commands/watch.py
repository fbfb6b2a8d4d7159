"""`bmtools watch`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.options import Command
from bmtools.cli.parameters import InputPath
from bmtools.cli.results import print_results, prints_results, shows_tables
from bmtools.cli.step import CommandStep
from bmtools.io.system import Ended


@click.command("watch", cls=Command, examples=(
    "bmtools watch model --once",
    "bmtools watch model notes.jsonl"), groups={"Output": "once table"})
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT...",
                type=InputPath(Path, exists=False))
@click.option("--once", is_flag=True, help="Print the present state and end.")
@prints_results
def command(step: CommandStep, outputs: tuple[Path, ...], once: bool) -> None:
    """Follow commands that run in another shell or on another machine.

    OUTPUT is the directory or file that a command writes with -o, on a disk that both machines see,
    or a directory in which several write theirs. Shows what the command itself shows on a terminal,
    and when there were news of it; ends with it, with 0 if the output is written, 75 if the run was
    stopped and can be resumed, and 1 if it failed or its process is gone. Ctrl-C leaves the command
    alone. Where stdout is no terminal, a JSON line says how each ended.
    """
    from bmtools.cli.watching import find_jobs, follow, print_jobs, refresh

    jobs = find_jobs(outputs)
    if once:
        refresh(jobs)
    else:
        step.hide_status()
        try:
            follow(jobs)
        except Ended as error:
            raise Ended(error.number, "the command goes on") from error
    if once or not shows_tables(step):
        print_results(step, [job.described() for job in jobs],
                      print_tables=lambda _lines: print_jobs(jobs))
    if codes := [job.ending.code for job in jobs if job.ending and job.ending.code]:
        raise click.exceptions.Exit(min(codes))
