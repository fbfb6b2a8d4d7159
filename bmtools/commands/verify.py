"""`bmtools verify`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.options import Command
from bmtools.cli.parameters import InputDirectory, InputPath
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.errors import DataError


@click.command("verify", cls=Command, examples=(
    "bmtools verify model", "bmtools verify model --search . --json"), topics="checkpoints")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...",
                type=InputPath(Path))
@click.option("--search", multiple=True, metavar="DIR",
              type=InputDirectory(is_hashed=False),
              help="Look for inputs here, too; may be repeated.")
@prints_results
def command(step: CommandStep, paths: tuple[Path, ...], search: tuple[Path, ...]) -> None:
    """Hash outputs and their inputs again, and name what changed.

    PATHS are directories and files with a record of how they were made (bmtools.json, or
    FILE.bmtools.json), or folders of such, all of which are looked at. Inputs are looked for as by
    lineage, back to the first ones. Prints a line about each: same, changed, missing, added or not
    found. Exits with 1 if anything differs.
    """
    from bmtools.study.lineages.verify import differs, verify

    lines = print_results(step, verify(paths, search))
    same, absent = (sum(line["state"] == state for line in lines)
                    for state in ("same", "not found"))
    finish(step, f"{same} as recorded" + f", {absent} not found" * (absent > 0))
    if faults := [str(line["path"]) for line in lines if differs(line)]:
        raise DataError(f"{len(faults)} differ from what was recorded: {', '.join(faults[:5])}"
                        + ", ..." * (len(faults) > 5))
