"""`bmtools energy`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bmtools.cli.options import Command
from bmtools.cli.parameters import InputPath
from bmtools.cli.results import Line, finish, print_results, reports
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import print_lines
from bmtools.errors import DataError, count_of
from bmtools.io.energy.settings import EnergyConfig
from bmtools.values import format_figure


@click.command("energy", cls=Command, examples=(
    "bmtools energy model",
    "bmtools energy model scores.jsonl --watts 350 --country ITA --statement"))
@click.argument("paths", nargs=-1, required=True, type=InputPath(Path),
                metavar="PATH...")
@takes_settings(EnergyConfig, "config")
@click.option("--statement", is_flag=True,
              help="Instead, print a statement of environmental impact with its arithmetic.")
@reports("the lines")
def command(step: CommandStep, paths: tuple[Path, ...], config: EnergyConfig, statement: bool,
            output: str) -> None:
    """Add up the energy and emissions of all steps, and state them.

    Prints a JSON line for each command and one for all commands: hours, GPU-hours, kWh and kgCO2eq.
    It includes the steps that led to checkpoints, corpora and scores, or to all outputs in a
    directory, each step once. It keeps energy from counters, the commands' share, and declared
    energy separate. The options apply to all steps afterwards. BMTOOLS_POWER_WATTS,
    BMTOOLS_COUNTRY, BMTOOLS_GRID_G_PER_KWH and BMTOOLS_PUE declare the same values while a step
    runs.
    """
    from bmtools.io.output import open_output
    from bmtools.study.energy import find_steps, total
    from bmtools.study.energy import statement as statement_of
    from bmtools.study.lineages.lineage import trace

    steps = find_steps(trace(paths).steps())
    if not steps:
        raise DataError(f"{paths[0]}: found no record of how it was made, expected an output of "
                        "bmtools, with bmtools.json in it or FILE.bmtools.json next to it")
    lines = total(steps, config)
    if statement:
        with open_output(output) as stream:
            stream.write(statement_of(lines).encode())
    else:
        print_results(step, lines, output, _print_table)
    whole = lines[-1]
    kinds = [f"{format_figure('kwh', whole[kind]['kwh'])} kWh {kind}"
             for kind in ("measured", "allotted", "declared") if kind in whole]
    missing = (f"; {len(whole['without'])} without energy, declare the machine's power with --watts"
               if whole["without"] else "")
    hours = format_figure("hours", whole.get("hours", 0))
    finish(step, f"{count_of(whole['steps'], 'steps')}, {', '.join([hours, *kinds])}{missing}")


def _print_table(lines: Sequence[Line]) -> None:
    """Print the lines as a table, without the keys that only the statement uses."""
    print_lines([{name: value for name, value in line.items()
                  if name not in ("terms", "hardware", "without")} for line in lines])
