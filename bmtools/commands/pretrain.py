"""`bmtools pretrain`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from bmtools.commands.options import existing_directory, takes_rejects, writes_directory
from bmtools.commands.training import (
    TrainingCommand,
    check_replay,
    launches,
    print_metrics,
    reads_texts,
    resumes,
    takes_script,
)
from bmtools.errors import Reject
from bmtools.io.manifest import hash_directory
from bmtools.training.phases import ReplaySettings, Script, run_settings
from bmtools.training.regularisation import AdversarySettings, ForgettingSettings
from bmtools.training.settings import LoopSettings, RunSettings


@click.command("pretrain", cls=TrainingCommand)
@launches
@reads_texts
@takes_rejects
@writes_directory
@click.option("--model", type=existing_directory, metavar="CKPT", help="Checkpoint to continue.")
@click.option("--architecture", metavar="NAME",
              help="Start afresh: bert-base, roberta-large, modernbert-4x256, a config.json ...")
@click.option("--tokenizer", type=existing_directory, metavar="DIR",
              help="Tokenizer for a fresh start.")
@takes_script()
@resumes
def command(trained: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]],
            lang: str, segmenter: str, terms: Path | None, reject: Reject, output: Path,
            overwrite: bool, model: Path | None, architecture: str | None, tokenizer: Path | None,
            script: Script, resume: bool) -> int:
    """Train a masked language model from scratch or from a checkpoint, in phases.

    FILES are records, or shards that "bmtools tokenize" made. Prints a JSON line per report, and
    one about the checkpoint.

    SIGTERM, SIGUSR1 and --budget end a run after the step it is in: it saves a state, prints a
    line with the key "stopped" and exits with 75 (with 0 under a launcher other than --processes).
    The same command with --resume then goes on, and exits with 0 when the checkpoint is there.
    """
    if model and architecture:
        raise click.UsageError("expected one of --model and --architecture")
    architecture = architecture or script.architecture
    if not (model or architecture):
        raise click.UsageError("expected one of --model and --architecture")
    if (model is None) != (tokenizer is not None):
        raise click.UsageError("--architecture and --tokenizer go together")
    check_replay(script, others)
    from bmtools.training.corpora import Wanted
    from bmtools.training.plan import Plan, check_targets
    from bmtools.training.pretrain import Beginning, pretrain

    plan = Plan(
        "pretrain", output, script, run_settings(script, LoopSettings),
        run_settings(script, RunSettings), run_settings(script, ForgettingSettings),
        run_settings(script, ReplaySettings), run_settings(script, AdversarySettings),
        {"model": model and str(model), "architecture": None if model else architecture,
         "tokenizer": tokenizer and str(tokenizer), "terms": terms and str(terms)},
        {"model": hash_directory(model)} if model else {}, resume, overwrite)
    check_targets(plan)
    beginning = Beginning(model, architecture, tokenizer)
    wanted = Wanted(trained, others, lang, segmenter, terms)
    return print_metrics(pretrain(plan, beginning, wanted, reject), "pretraining")
