"""Options that the scoring commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import click

from bmtools.cli.launcher import launch
from bmtools.cli.options import Values, add_options, scored_directory, writes_file, writes_records
from bmtools.cli.parameters import InputFile
from bmtools.cli.results import prints_results
from bmtools.cli.settings import with_options
from bmtools.cli.step import CommandStep
from bmtools.installation import require_extra
from bmtools.io.sources import STDIN
from bmtools.scoring.settings import InferenceConfig
from bmtools.statistics.settings import StatisticsConfig
from bmtools.status import counted

takes_models = click.option(
    "--model", "models", type=scored_directory, multiple=True, required=True, metavar="CKPT",
    help="Checkpoint to score; repeat it to compare several.")
takes_groups = click.option(
    "--by", multiple=True, metavar="KEY",
    help="Also score by the values of this key; repeat it for more. Dots reach into objects: "
         "meta.year.")


def scores_checkpoints(kind: type) -> Callable[..., Any]:
    """Add the options of a measure: its processes, checkpoints, settings, statistics and outputs.

    The function gets `models`, `output`, and what the room's public function takes: `progress`
    and, as plain keywords, the fields of the settings. Put this before `reads_records`: the
    processes are launched before anything is opened.

    Args:
        kind: dataclass of the measure's own settings.
    """
    kinds = (StatisticsConfig, InferenceConfig, kind)

    def prepare(step: CommandStep, values: Values) -> None:
        for one in kinds:
            one(**{field.name: values[field.name] for field in fields(one)})  # checks them
        if values["precision"] == "int8":
            require_extra("ctranslate2", "--precision int8")
        processes = values.pop("processes")
        if processes > 1 and (not values["files"] or STDIN in values["files"]):
            raise click.UsageError("--processes: found stdin, which processes cannot share, "
                                   "expected names of files")
        launch(step.display, processes)
        values["progress"] = partial(counted, activity="scoring", unit="scores")

    return partial(add_options, [
        click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True,
                     help="Processes of this machine that share the records, one for each GPU; on "
                          "a CPU --threads does the same in less memory."),
        takes_models,
        click.option("--baseline", type=InputFile(allow_dash=False), metavar="FILE",
                     help="Also score the token frequencies of these records, as a model without "
                          "context would."),
        takes_groups,
        writes_file("--details", "Write a line for each scored item and checkpoint here."),
        writes_records, prints_results,
        *(partial(with_options, kind=one) for one in kinds)], prepare)
