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
    "bmtools verify model", "bmtools verify model --search . --strict --json"),
    topics="checkpoints")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...",
                type=InputPath(Path))
@click.option("--search", multiple=True, metavar="DIR",
              type=InputDirectory(is_hashed=False),
              help="Also search for inputs here; may be repeated.")
@click.option("--strict", is_flag=True, help="Fail also if an input is not found.")
@prints_results
def command(step: CommandStep, paths: tuple[Path, ...], search: tuple[Path, ...],
            strict: bool) -> None:
    """Hash outputs and their inputs again, and report changes.

    PATHS are directories and files with a record of how they were made (bmtools.json or
    FILE.bmtools.json), or directories of these, which are checked completely. Inputs are searched
    for as in lineage, back to the first ones. Prints a line for each output and input: same,
    changed, missing, added or not found. Exits with 1 if anything differs, and under --strict also
    if an input is not found.
    """
    from bmtools.study.lineages.verify import differs, verify

    lines = print_results(step, verify(paths, search))
    same, absent = ([str(line["path"]) for line in lines if line["state"] == state]
                    for state in ("same", "not found"))
    finish(step, f"{len(same)} as recorded" + f", {len(absent)} not found (search more with "
           "--search DIR)" * bool(absent))
    faults = {"different from the record": [str(line["path"]) for line in lines
                                            if differs(line)],
              "not found": absent * strict}
    if any(faults.values()):
        raise DataError("; ".join(
            f"{len(found)} {fault}: {', '.join(found[:5])}" + ", ..." * (len(found) > 5)
            for fault, found in faults.items() if found)
            + "; search more with --search DIR" * bool(absent and strict))
