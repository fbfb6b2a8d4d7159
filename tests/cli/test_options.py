"""Options that several commands share."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from bmtools.cli.options import option_group


@option_group(click.option("--width", default=2))
def takes_area(values: dict[str, Any]) -> None:
    """Pass `area`."""
    values["area"] = values.pop("width") ** 2


@option_group(takes_area, click.option("--height", default=3))
def takes_volume(values: dict[str, Any]) -> None:
    """Pass `volume`."""
    values["volume"] = values.pop("area") * values.pop("height")


@click.command()
@takes_volume
@click.option("--unit", default="l")
def command(volume: int, unit: str) -> None:
    """Show a volume."""
    click.echo(f"{volume} {unit}")


def test_inner_groups_are_converted_first() -> None:
    assert CliRunner().invoke(command, []).output == "12 l\n"
    assert CliRunner().invoke(command, ["--height", "1", "--width", "5"]).output == "25 l\n"


def test_help_keeps_the_order_of_options() -> None:
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "Show a volume." in shown
    assert shown.index("--width") < shown.index("--height") < shown.index("--unit")
