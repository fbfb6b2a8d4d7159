"""Options made from settings dataclasses."""

from __future__ import annotations

from typing import Literal

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from bmtools.cli.options import Command
from bmtools.cli.settings import takes_settings
from bmtools.settings import Settings, option

Color = Literal["red", "green"]


class Paint(Settings, title="Paint"):
    """Paint."""

    color: Color = option("red", "Its hue.")
    gloss: Literal["matt", "high"] | None = option(None, "How much it shines; none for plain.")
    layers: int = option(1, "Coats.")


class Varnish(Paint, title="Varnish"):
    """Varnish."""

    color: Color = option("red", "Of the wood below it.")
    drying: int = option(3, "Hours.")


@click.command(cls=Command)
@takes_settings(Paint, "paint")
def command(paint: Paint) -> None:
    click.echo(repr(paint))


@pytest.mark.parametrize(("arguments", "paint"), [
    ((), Paint()), (("--color", "green", "--gloss", "high"), Paint("green", "high"))])
def test_literals_are_choices(arguments: tuple[str, ...], paint: Paint) -> None:
    assert CliRunner().invoke(command, arguments).output == f"{paint!r}\n"


def test_help_and_completion_list_choices() -> None:
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "--color [red|green]" in shown and "--gloss [matt|high]" in shown
    completion = ShellComplete(command, {}, "command", "_COMMAND_COMPLETE")
    assert [item.value for item in completion.get_completions(["--color"], "")] == ["red", "green"]


def test_another_value_is_wrong_usage() -> None:
    outcome = CliRunner().invoke(command, ["--color", "blue"])
    assert outcome.exit_code == 2
    assert "Invalid value for '--color': 'blue' is not one of 'red', 'green'" in outcome.output


def test_an_inherited_setting_is_described_once() -> None:
    @click.command()
    @takes_settings(Varnish, "varnish")
    def varnish(varnish: Varnish) -> None: ...

    shown = " ".join(CliRunner().invoke(varnish, ["--help"]).output.split())
    assert "--color [red|green] Of the wood below it. [default: red]" in shown
    assert "How much it shines; none for plain. --" in shown and "Coats." in shown
    assert "Its hue" not in shown
