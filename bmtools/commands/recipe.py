"""`bmtools recipe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bmtools.cli.help import Group
from bmtools.cli.options import Command, usage_errors
from bmtools.cli.parameters import NameOrFile
from bmtools.cli.results import print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import print_table
from bmtools.io.output import encode_lines
from bmtools.io.sources import STDIN
from bmtools.recipes.phases import resolved
from bmtools.recipes.toml import load_recipe, read_run_config, recipe_names, recipe_text, to_toml
from bmtools.records import JsonMapping


@click.group("recipe", cls=Group, examples=(
    "bmtools recipe list", "bmtools recipe show laptop > phases.toml"))
def command() -> None:
    """List and show the papers' pretraining settings.

    A recipe is a phases file. Save it with "show", change settings, and train with --phases.
    """


@command.command("list", cls=Command, examples=(
    "bmtools recipe list", "bmtools recipe list --json"), topics="phases")
@prints_results
def list_recipes(step: CommandStep) -> None:
    """List the recipes, one per line."""
    recipes = {name: load_recipe(name) for name in recipe_names()}
    lines = [{"recipe": name, "title": one.title, "phases": [phase.name for phase in one.phases],
              "source": one.source} for name, one in recipes.items()]
    print_results(step, lines, print_tables=_print_table)


@command.command("show", cls=Command, examples=(
    "bmtools recipe show laptop > phases.toml", "bmtools recipe show pubmedbert --json"),
    topics="phases")
@click.argument("recipe", metavar="NAME|FILE",
                type=NameOrFile(lambda name: name in recipe_names(), recipe_names))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def show_recipe(recipe: str, as_json: bool) -> None:
    """Print a recipe unchanged, or a phases file with all settings.

    Accepts the name of a recipe, a file, or "-" for stdin. A recipe is printed with its comments; a
    file is printed with every setting, including defaults of settings that it does not contain.
    """
    is_file = recipe == STDIN or recipe.endswith(".toml") or Path(recipe).exists()
    shipped = recipe in recipe_names() or not is_file
    with usage_errors():
        config = load_recipe(recipe) if shipped else read_run_config(recipe)
    if as_json:
        sys.stdout.buffer.write(encode_lines([resolved(config)]))
    else:
        text = recipe_text(recipe) if shipped else to_toml(config)
        sys.stdout.buffer.write(text.encode())


def _print_table(lines: Sequence[JsonMapping]) -> None:
    print_table(("recipe", "title", "phases", "source"),
                [(line["recipe"], line["title"], ", ".join(line["phases"]), line["source"])
                 for line in lines], text_columns=4)
