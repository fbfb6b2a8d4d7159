"""`bmtools pretrain`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.commands.options import Command, existing_directory, reads_records, writes_directory
from bmtools.commands.settings import takes_settings
from bmtools.commands.training import print_metrics, resumes
from bmtools.errors import Reject
from bmtools.io.manifest import hash_directory
from bmtools.io.streams import RecordReader
from bmtools.training.settings import LoopSettings, RowSettings, RunSettings


@click.command("pretrain", cls=Command)
@reads_records
@writes_directory
@click.option("--model", type=existing_directory, metavar="CKPT", help="Checkpoint to continue.")
@click.option("--architecture", metavar="NAME",
              help="Start afresh: bert-tiny to bert-large, bert-LAYERSxWIDTH, or a config.json.")
@click.option("--tokenizer", type=existing_directory, metavar="DIR",
              help="Tokenizer for a fresh start.")
@takes_settings(RowSettings, "rows")
@takes_settings(LoopSettings, "loop")
@takes_settings(RunSettings, "run")
@resumes
def command(records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            model: Path | None, architecture: str | None, tokenizer: Path | None,
            rows: RowSettings, loop: LoopSettings, run: RunSettings, resume: bool) -> None:
    """Train a masked language model, from scratch or from a checkpoint."""
    if (model is None) == (architecture is None):
        raise click.UsageError("expected one of --model and --architecture")
    if (architecture is None) != (tokenizer is None):
        raise click.UsageError("--architecture and --tokenizer go together")
    from bmtools.training.pretrain import pretrain
    from bmtools.training.run import Plan, check_targets

    extra = {"model": model and str(model), "architecture": architecture,
             "tokenizer": tokenizer and str(tokenizer)}
    parents = {"model": hash_directory(model)} if model else {}
    plan = Plan("pretrain", output, rows, loop, run, extra, parents, resume, overwrite)
    check_targets(plan)
    print_metrics(pretrain(plan, records, lambda: records.hashes, model, architecture, tokenizer),
                  "pretraining")
