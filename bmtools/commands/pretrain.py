"""`bmtools pretrain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from bmtools.cli.model_options import Origin, takes_model_init
from bmtools.cli.options import takes_rejects, writes_directory
from bmtools.cli.training_options import (
    TrainingCommand,
    check_replay,
    launches,
    print_metrics,
    resumes,
    takes_datasets,
    takes_run_config,
)
from bmtools.errors import Reject
from bmtools.recipes.phases import RunConfig


@click.command("pretrain", cls=TrainingCommand)
@launches
@takes_datasets
@takes_rejects
@writes_directory
@takes_run_config()
@takes_model_init
@resumes
def command(trained: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]],
            lang: str, segmenter: str, terms: Path | None, reject: Reject, output: Path,
            overwrite: bool, origin: Origin, config: RunConfig, resume: bool) -> int:
    """Train a masked language model from scratch or from a checkpoint, in phases.

    FILES are records, or shards that "bmtools tokenize" made. Prints a JSON line per report, and
    one about the checkpoint.

    SIGTERM, SIGUSR1 and --budget end a run after the step it is in: it saves a state, prints a
    line with the key "stopped" and exits with 75 (with 0 under a launcher other than --processes).
    The same command with --resume then goes on, and exits with 0 when the checkpoint is there.
    """
    check_replay(config, others)
    from bmtools.training.datasets import DataConfig
    from bmtools.training.plan import check_targets
    from bmtools.training.pretrain import ModelInit, pretrain

    plan = replace(origin.plan(output, config, terms), resume=resume, overwrite=overwrite)
    check_targets(plan)
    beginning = ModelInit(origin.model, origin.architecture, origin.tokenizer)
    wanted = DataConfig(trained, others, lang, segmenter, terms)
    return print_metrics(pretrain(plan, beginning, wanted, reject), "pretraining")
