"""Options of the projection of annotations, for `project` and `translate`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Decorator, Values, add_options
from bmtools.cli.parameters import InputFile
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.translation.projection.settings import Lost, Method, MethodConfig, ProjectionConfig

_OPTIONS = [
    click.option("--method", "methods", multiple=True, type=Choice(get_args(Method)),
                 default=ProjectionConfig.methods, show_default=True,
                 help="Method that looks for annotations in the translation; several vote."),
    click.option("--edges/--no-edges", default=ProjectionConfig.edges, show_default=True,
                 help="Correct where annotations begin and end by rules."),
    click.option("--lost", type=Choice(get_args(Lost)), default=ProjectionConfig.lost,
                 show_default=True, help="An annotation without a place in the translation: drop "
                                         "it, or reject its record."),
    click.option("--min-confidence", type=click.FloatRange(0, 1),
                 default=ProjectionConfig.min_confidence, show_default=True,
                 help="Least confidence of the annotations that stay."),
    click.option("--confidence", type=InputFile(Path, allow_dash=False),
                 metavar="FILE", show_default="the one that is shipped",
                 help="Calibration of the confidence, as project --fit-confidence writes it.")]
PROJECTION_OPTIONS = "method edges lost min-confidence confidence embeddings layer link-rule " \
                     "occurrences"


def _configure(_step: CommandStep, values: Values) -> None:
    names = ("methods", "edges", "lost", "min_confidence", "confidence", "resources")
    values["projection"] = ProjectionConfig(**{name: values.pop(name) for name in names})


def takes_projection(without: Sequence[str] = ()) -> Decorator:
    """Add the options; passes `projection`, a `ProjectionConfig`.

    Args:
        without: resources of methods that the command has an option for.
    """
    return partial(add_options, [*_OPTIONS, takes_settings(MethodConfig, "resources", without)],
                   _configure)


def refuse_projection_options(ctx: click.Context) -> None:
    """Refuse options of the projection where nothing is projected.

    Raises:
        UsageError: names the first one.
    """
    given = click.core.ParameterSource.COMMANDLINE
    for param in ctx.command.params:
        flag = max(param.opts, key=len, default="").removeprefix("--")
        if flag in (*PROJECTION_OPTIONS.split(), "translate-mentions") \
                and ctx.get_parameter_source(param.name or "") is given:
            raise click.UsageError(f"--{flag} means nothing without --project", ctx)
