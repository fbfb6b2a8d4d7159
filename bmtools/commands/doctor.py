"""`bmtools doctor`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from bmtools.cli.options import Command
from bmtools.cli.results import Line, finish, print_results, prints_results
from bmtools.cli.step import CommandStep


@click.command("doctor", cls=Command, examples=("bmtools doctor", "bmtools doctor --json"),
               topics="devices")
@prints_results
def command(step: CommandStep) -> None:
    """Show what this installation contains, what is missing and how to add it.

    Prints a line for each part: versions, device, threads, free memory, speed of a core, extras
    and programs. used_by names the commands that need a part, fix the command that installs it.
    """
    from bmtools.models.doctor import diagnose

    lines = print_results(step, diagnose(), print_tables=_print_parts)
    missing = sum(str(line["found"]).startswith("missing") for line in lines)
    finish(step, (f"{missing} optional parts are missing, which only some commands need" if missing
                  else "all optional parts are installed") + f"; checked {len(lines)} parts")


def _print_parts(lines: Sequence[Line]) -> None:
    """Print a part in each row, with its fix on the next line."""
    for line in lines:
        print(f"{line['part']:<18} {line['found']}" + f" (for {line['used_by']})" * (
            str(line["found"]).startswith("missing")))
        if line["fix"]:
            print(f"{'':<18} {line['fix']}")
