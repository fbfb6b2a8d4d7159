"""Options for engines and for projecting annotations, for `translate` and `project`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Decorator, together
from bmtools.cli.settings import takes_values
from bmtools.translation.projection.settings import Method, ProjectionConfig
from bmtools.translation.settings import Engine, EngineConfig


def takes_engine(required: bool) -> Decorator:
    """Add the options of engines; the function gets the values of `EngineConfig`.

    Args:
        required: whether the command needs an engine.
    """
    return together(
        click.option("--source-lang", required=required, metavar="LANG",
                     help="Language of the records (en)."),
        click.option("--target-lang", required=required, metavar="LANG",
                     help="Language of the translations (it)."),
        click.option("--engine", required=required, type=Choice(get_args(Engine)),
                     help="Engine to translate with."),
        takes_values(EngineConfig, without=("engine", "source_lang", "target_lang")))


def takes_projection(without: Sequence[str] = ()) -> Decorator:
    """Add the options of projection; the function gets the values of `ProjectionConfig`.

    Args:
        without: settings that keep their defaults or are set by another option.
    """
    return together(
        click.option("--method", "methods", multiple=True, type=Choice(get_args(Method)),
                     default=ProjectionConfig.methods, show_default=True,
                     help="Method to find annotations in the translation; several methods vote."),
        takes_values(ProjectionConfig, without=("methods", *without)))
