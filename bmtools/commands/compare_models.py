"""`bmtools compare-models`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, InputFile, inference_directory, input_file, writes_records
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.score_closing import after_compare_models
from bmtools.cli.settings import takes_settings
from bmtools.io.sources import split_name
from bmtools.models.settings import SpeedConfig


class Scores(InputFile):
    """A file of scores, which may have a name in front: NAME=FILE."""

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        """Check the file; the name stays in front."""
        super().convert(split_name(value)[1], param, ctx)
        return value


@click.command("compare-models", cls=Command, examples=(
    "bmtools compare-models model --turns 1",
    "bmtools compare-models base model --scores scores.jsonl --texts notes.jsonl --turns 1"),
    groups={"Scores": "scores output", "Speed": "texts batch-size max-length turns threads"},
    topics="checkpoints devices",
    meanings={"output": "Write the lines here; .gz and .zst compress."})
@click.argument("models", nargs=-1, required=True, type=inference_directory, metavar="CKPT...")
@click.option("--scores", multiple=True, type=Scores(), metavar="[NAME=]FILE",
              help="Scores of score-pppl, score-mrr, score-tasks or score-suite to put beside; "
                   "NAME goes before their metrics.")
@click.option("--texts", type=input_file, metavar="FILE",
              help="Records whose first texts are read; random tokens without.")
@takes_settings(SpeedConfig, "config")
@prints_results
@writes_records
def command(models: tuple[Path, ...], scores: tuple[str, ...], texts: str | None,
            config: SpeedConfig, output: str) -> None:
    """Compare models by size, speed, memory and scores.

    Prints a JSON line per checkpoint, exported or static model: parameters, megabytes on disk, and
    on the CPU, and the GPU if there is one, tokens a second and peak memory, measured here while
    models take turns; metrics with intervals, and differences from the first model, from files.
    """
    from bmtools.study.reports.compare_models import compare_models

    lines = print_results(compare_models(models, scores, texts, **asdict(config)), output)
    finish(*after_compare_models(lines, output))
