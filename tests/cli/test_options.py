"""Options that several commands share."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from click.testing import CliRunner

from bmtools.cli.options import Command, add_options
from bmtools.cli.step import CommandStep


def compute_area(_step: CommandStep, values: dict[str, Any]) -> None:
    values["area"] = values.pop("width") ** 2


def compute_volume(_step: CommandStep, values: dict[str, Any]) -> None:
    if values["height"] < 0:
        raise ValueError("height: found less than 0")
    values["volume"] = values.pop("area") * values.pop("height")


takes_area = partial(add_options, [click.option("--width", default=2)], compute_area)
takes_volume = partial(add_options, [takes_area, click.option("--height", default=3)],
                       compute_volume)


@click.command(cls=Command)
@takes_volume
@click.option("--unit", default="l")
def command(volume: int, unit: str) -> None:
    """Show a volume."""
    click.echo(f"{volume} {unit}")


def test_inner_groups_are_converted_first() -> None:
    assert CliRunner().invoke(command, []).output == "12 l\n"
    assert CliRunner().invoke(command, ["--height", "1", "--width", "5"]).output == "25 l\n"


def test_a_wrong_value_is_wrong_usage() -> None:
    outcome = CliRunner().invoke(command, ["--height", "-1"])
    assert outcome.exit_code == 2
    assert "height: found less than 0" in outcome.output


def test_help_keeps_the_order_of_options() -> None:
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "Show a volume." in shown
    assert shown.index("--width") < shown.index("--height") < shown.index("--unit")
