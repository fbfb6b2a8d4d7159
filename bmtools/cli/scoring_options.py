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
    writes_file,
)
from bmtools.cli.parameters import InputFile
from bmtools.cli.results import Closing, Line, reports, with_file
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of
from bmtools.scoring.settings import InferenceConfig
from bmtools.statistics.settings import StatisticsConfig
from bmtools.status import counted
from bmtools.values import format_estimate, format_figure, heading

takes_models = click.option(
    "--model", "models", type=scored_directory, multiple=True, required=True, metavar="CKPT",
    help="Checkpoint to score; repeat it to compare several.")
takes_groups = click.option(
    "--by", multiple=True, metavar="KEY",
    help="Also score by the values of this key; repeat it for more. Dots reach into objects: "
         "meta.year.")


def scores_checkpoints(kind: type, item: str) -> Decorator:
    """Add the options of a measure: its checkpoints, settings, statistics and outputs.

    The function gets `models`, `output`, and what the room's public function takes: `progress`
    and, as plain keywords, the fields of the settings.

    Args:
        kind: dataclass of the measure's own settings.
        item: what is scored.
    """
    kinds = (StatisticsConfig, InferenceConfig, kind)

    def prepare(_step: CommandStep, values: Values) -> None:
        for one in kinds:
            one(**{field.name: values[field.name] for field in fields(one)})  # checks them
        values["progress"] = partial(counted, activity="scoring", unit="scores")

    return partial(add_options, [
        takes_models,
        click.option("--baseline", type=InputFile(allow_dash=False), metavar="FILE",
                     help="Also score the token frequencies of these records, as a model without "
                          "context would."),
        takes_groups,
        writes_file("--details", f"Write a line for each {item} and checkpoint here."),
        reports("the scores"),
        takes_values(*kinds)], prepare)


def scoring_closing(lines: Sequence[Line], metric: str, unit: str, output: str,
                  lowest: bool = True) -> Closing:
    """Close a `score-*` command: the best checkpoint's score, with its interval.

    Args:
        lines: those of checkpoints have the metric.
        metric: key that checkpoints are ranked by.
        unit: key of what was counted; models that count others than each other are not ranked.
        output: file of the lines.
        lowest: whether lower is better.
    """
    scored = [line for line in lines if line.get(metric) is not None and "model" in line]
    next_command = with_file("table {}", output)
    if not scored:
        return f"scored {count_of(len(lines), 'checkpoints')}", next_command
    models, counted = len({line["model"] for line in scored}), unit.replace("_", " ")
    if len({line.get("data") for line in scored}) > 1:
        return (f"scored {models} models, each on other {counted}; their comparisons are over "
                "those that both count"), next_command
    ranked = metric
    per_token = metric in ("pppl", "perplexity")
    if per_token and len({line.get("vocabulary") for line in scored}) > 1:
        # Tokens of different vocabularies do not compare, nor characters of different texts.
        ranked = "bits_per_character"
        if metric != "pppl" or len({_text_read(line) for line in scored}) > 1:
            return (f"scored {len(scored)} checkpoints that have no measure in common",
                    next_command)
    best = (min if lowest else max)(scored, key=lambda line: line[ranked])
    bounds = best.get("interval") or best.get("intervals", {}).get(metric)
    score = f"{heading(metric)} {format_estimate(metric, best[metric], bounds)}"
    if ranked != metric:
        score = f"{heading(ranked)} {format_figure(ranked, best[ranked])}, {score}"
    among = f"the {'lowest' if lowest else 'highest'} of {models}, " if models > 1 else ""
    return f"{best['model']} has {among}{score} over {count_of(best[unit], counted)}", next_command


def _text_read(line: Line) -> tuple[str, ...]:
    """Find what a signature says of the text that a model reads."""
    return tuple(field for field in line.get("signature", "").split("|")
                 if field.startswith(("case:", "accents:")))
