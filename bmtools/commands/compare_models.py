"""`bmtools compare-models`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bmtools.cli.options import Command, inference_directory, input_file
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.models.settings import SpeedConfig


@click.command("compare-models", cls=Command, examples=(
    "bmtools compare-models model --texts notes.jsonl --turns 1",
    "bmtools compare-models base model --texts notes.jsonl --turns 1"),
    topics="checkpoints devices",
    next_command="table {output} --columns parameters,megabytes,cpu.tokens_per_second")
@click.argument("models", nargs=-1, required=True, type=inference_directory, metavar="CKPT...")
@click.option("--texts", type=input_file, metavar="FILE", required=True,
              help="Records whose first texts the models read.")
@takes_settings(SpeedConfig, "config")
@reports("the lines")
def command(step: CommandStep, models: tuple[Path, ...], texts: str,
            config: SpeedConfig, output: str) -> None:
    """Compare models by size, speed and memory.

    Prints a JSON line per checkpoint or exported model: parameters, megabytes on disk, and
    tokens per second and peak memory on the CPU, measured here while models take turns.
    `bmtools table` shows them next to scores.
    """
    from bmtools.study.reports.compare_models import compare_models

    lines = print_results(step, compare_models(models, texts, **asdict(config)), output)
    first, *others = [(line["cpu"]["tokens_per_second"], line["model"]) for line in lines]
    speed, fastest = max(others, default=first)
    fact = f"{fastest} runs {speed / first[0]:.2g} times as fast as {first[1]} on the CPU" \
        if others else f"{first[1]} reads {first[0]:,} tokens per second on the CPU"
    finish(step, fact)
