"""`bmtools finetune`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import (
    Command,
    existing_directory,
    sources,
    takes_rejects,
    writes_directory,
)
from bmtools.cli.settings import takes_settings
from bmtools.cli.training_options import print_metrics
from bmtools.errors import Reject
from bmtools.io.atomic import refuse_existing
from bmtools.io.jsonl import STDIN, RecordReader
from bmtools.io.manifest import hash_directory
from bmtools.recipes.settings import LearningRateConfig, OptimizationConfig
from bmtools.tasks.settings import FinetuneConfig, NerConfig

_records = click.Path(exists=True, dir_okay=False, allow_dash=True)
_FAULTS = {
    "repeated": "annotated twice",
    "discontinuous": "in several parts, taken as one",
    "unaligned": "with a border inside a word",
    "overlapping": "overlapping a longer one, not tagged",
}


@click.command("finetune", cls=Command)
@click.option("--task", type=click.Choice(["ner"]), required=True,
              help="What to learn: ner, entities in text.")
@click.option("--model", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint to start from; it stays as it is.")
@click.option("--train", type=_records, required=True, metavar="FILE",
              help="Records to learn from; - means stdin, for one of the sets.")
@click.option("--dev", type=_records, required=True, metavar="FILE",
              help="Records that choose the epoch and the seed.")
@click.option("--test", type=_records, metavar="FILE",
              help="Records to score each seed by; they choose nothing.")
@takes_rejects
@writes_directory
@takes_settings(NerConfig, "ner")
@takes_settings(FinetuneConfig, "settings")
@takes_settings(LearningRateConfig, "schedule", learning_rate=5e-5)
@takes_settings(OptimizationConfig, "loop", dropout=0.1)
def command(task: str, model: Path, train: str, dev: str, test: str | None, reject: Reject,
            output: Path, overwrite: bool, ner: NerConfig, settings: FinetuneConfig,
            schedule: LearningRateConfig, loop: OptimizationConfig) -> None:
    """Train a checkpoint on an annotated task, with several seeds."""
    names = {"train": train, "dev": dev, **({"test": test} if test else {})}
    if list(names.values()).count(STDIN) > 1:
        raise click.UsageError("only one of --train, --dev and --test can be stdin")
    refuse_existing(output, overwrite)
    from bmtools.tasks.finetune import FinetunePlan, finetune
    from bmtools.tasks.ner_training import NerTask

    splits = {split: RecordReader(sources((name,)), reject) for split, name in names.items()}
    plan = FinetunePlan(
        model, output, settings, loop, schedule, {"task": task, **asdict(ner), **names},
        {"model": hash_directory(model)}, overwrite)
    lines = finetune(plan, NerTask(model, ner, settings.batch_size), splits,
                     lambda: _hashes(splits.values()), reject)
    print_metrics(_told(lines), "fine-tuning")


def _hashes(readers: Iterable[RecordReader]) -> dict[str, str]:
    return {name: value for reader in readers for name, value in reader.hashes.items()}


def _told(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pass lines on, and say on stderr which annotations tags cannot express."""
    for line in lines:
        if "split" in line:
            for fault in _faults(line):
                click.echo(f"bmtools: --{line['split']}: {fault}", err=True)
        yield line


def _faults(line: dict[str, Any]) -> Iterator[str]:
    of = f"of {line['entities']} entities"
    met = [f"{line[name]} {meaning}" for name, meaning in _FAULTS.items() if line[name]]
    if met:
        yield f"{of}, {'; '.join(met)}; tags can give back {line['reachable']}"
    for kind, count in line["unseen_types"].items():
        yield f"{count} {of} are {kind}, which --train does not hold; they count as missed"
