"""Options that the scoring commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial

import click

from bmtools.cli.options import (
    Decorator,
    Values,
    add_options,
    scored_directory,
    usage_errors,
    writes_file,
)
from bmtools.cli.parameters import InputFile
from bmtools.cli.results import Line, reports
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of, require
from bmtools.scoring.settings import InferenceConfig
from bmtools.statistics.settings import StatisticsConfig
from bmtools.status import counted
from bmtools.values import format_estimate, heading

takes_models = click.option(
    "--model", "models", type=scored_directory, multiple=True, required=True, metavar="CKPT",
    help="Checkpoint to score; repeat it to compare several.")
takes_groups = click.option(
    "--by", multiple=True, metavar="KEY",
    help="Also score by the values of this key; repeat it for more. Dots reach into objects: "
         "meta.year.")


def fails_under(scores: str) -> Decorator:
    """Add a gate for scores whose best value is 1."""
    return click.option(
        "--fail-under", type=float, metavar="X", callback=_check_share,
        help=f"Exit with 3 if {scores} is below X; the best score is 1.")


def _check_share(_ctx: click.Context, _param: click.Parameter, bound: float | None) -> float | None:
    with usage_errors():
        require(bound is None or bound <= 1, "fail_under", bound and f"{bound:g}",
                "1 or less, such as 0.9 for 90 %")
    return bound


def scores_checkpoints(kind: type, item: str) -> Decorator:
    """Add the options of a measure: its checkpoints, settings, statistics and outputs.

    The function gets `models`, `output` and the arguments of the room's public function: `progress`
    and the fields of the settings as separate keywords.

    Args:
        kind: dataclass of the measure's own settings.
        item: noun for the scored items.
    """
    kinds = (StatisticsConfig, InferenceConfig, kind)

    def prepare(_step: CommandStep, values: Values) -> None:
        for one in kinds:
            one(**{field.name: values[field.name] for field in fields(one)})  # checks them
        values["progress"] = partial(counted, activity="scoring", unit="scores")

    return partial(add_options, [
        takes_models,
        click.option("--baseline", type=InputFile(allow_dash=False), metavar="FILE",
                     help="Also score these records' token frequencies, as a model that ignores "
                          "the context."),
        takes_groups,
        writes_file("--details", f"Write a line for each {item} and checkpoint here."),
        reports("the scores"),
        takes_values(*kinds)], prepare)


def scoring_closing(lines: Sequence[Line], metric: str, unit: str, lowest: bool = True) -> str:
    """Return the closing line of a `score-*` command: the best checkpoint's score and interval.

    Args:
        lines: result lines; lines of checkpoints contain the metric.
        metric: key that ranks the checkpoints.
        unit: key that counts the scored items.
        lowest: whether lower values are better.
    """
    scored = [line for line in lines if line.get(metric) is not None and "model" in line]
    # Checkpoints scored on different units, or on tokens of different vocabularies, are not ranked.
    keys = ("data", "vocabulary") if metric in ("pppl", "perplexity") else ("data",)
    if len({tuple(map(line.get, keys)) for line in scored}) != 1:
        return f"scored {count_of(len(scored or lines), 'checkpoints')}"
    best = (min if lowest else max)(scored, key=lambda line: line[metric])
    bounds = best.get("interval") or best.get("intervals", {}).get(metric)
    models = len({line["model"] for line in scored})
    equal = [*dict.fromkeys(line["model"] for line in scored if line[metric] == best[metric])]
    has = f"{' and '.join(equal)} are equal with" if len(equal) > 1 else f"{best['model']} has"
    among = f"the {'lowest' if lowest else 'highest'} of {models}, " if models > 1 else ""
    return (f"{has} {among}{heading(metric)} "
            f"{format_estimate(metric, best[metric], bounds)} over "
            f"{count_of(best[unit], unit.replace('_', ' '))}")
