"""`bmtools pretrain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from bmtools.commands.options import existing_directory, takes_rejects, writes_directory
from bmtools.commands.training import (
    TrainingCommand,
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
@reads_texts
@takes_rejects
@writes_directory
@click.option("--model", type=existing_directory, metavar="CKPT", help="Checkpoint to continue.")
@click.option("--architecture", metavar="NAME",
              help="Start afresh: bert-base, roberta-large, modernbert-4x256, a config.json ...")
@click.option("--tokenizer", type=existing_directory, metavar="DIR",
              help="Tokenizer for a fresh start.")
@takes_script()
@launches
@resumes
def command(trained: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]],
            lang: str, segmenter: str, reject: Reject, output: Path, overwrite: bool, model: Path | None,
            architecture: str | None, tokenizer: Path | None, terms: Path | None, script: Script,
            resume: bool) -> None:
    """Train a masked language model, from scratch or from a checkpoint, in one phase or several.

    FILES are records, or shards that `bmtools tokenize` made. Prints a JSON line per report.
    """
    if model and architecture:
        raise click.UsageError("expected one of --model and --architecture")
    if not model:
        architecture = architecture or script.architecture
        if not architecture:
            raise click.UsageError("expected one of --model and --architecture")
    if (model is None) != (tokenizer is not None):
        raise click.UsageError("--architecture and --tokenizer go together")
    replay = run_settings(script, ReplaySettings)
    if bool(replay.replay_every) != ("replay" in others):
        raise click.UsageError("--replay and --replay-every go together")
    from bmtools.training.corpora import Wanted
    from bmtools.training.plan import Plan, check_targets
    from bmtools.training.pretrain import Beginning, pretrain

    adversary = run_settings(script, AdversarySettings)
    plan = Plan(
        "pretrain", output, script, run_settings(script, LoopSettings),
        run_settings(script, RunSettings), run_settings(script, ForgettingSettings), replay,
        {"model": model and str(model), "architecture": architecture if not model else None,
         "tokenizer": tokenizer and str(tokenizer), "terms": terms and str(terms),
         **asdict(adversary)},
        {"model": hash_directory(model)} if model else {}, resume, overwrite)
    check_targets(plan)
    beginning = Beginning(model, architecture, tokenizer)
    wanted = Wanted(trained, others, lang, segmenter, terms)
    print_metrics(pretrain(plan, beginning, wanted, adversary, reject), "pretraining")
