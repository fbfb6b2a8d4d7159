"""`bmtools distill`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import click

from bmtools.cli.options import existing_directory, takes_rejects, writes_directory
from bmtools.cli.settings import takes_settings
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
from bmtools.io.manifest import hash_directory
from bmtools.recipes.phases import RunConfig, run_settings
from bmtools.recipes.settings import AdversarialConfig, DistillationConfig


@click.command("distill", cls=TrainingCommand)
@launches
@takes_datasets
@takes_rejects
@writes_directory
@click.option("--teacher", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint to learn from; it stays as it is.")
@click.option("--student", type=existing_directory, metavar="CKPT",
              help="Pretrained checkpoint to teach, with the teacher's vocabulary.")
@click.option("--architecture", metavar="NAME",
              help="Teach new weights instead: bert-tiny, bert-LAYERSxWIDTH, a config.json.")
@takes_settings(DistillationConfig, "settings")
@takes_run_config(warmup_ratio=0.05)
@resumes
def command(trained: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]],
            lang: str, segmenter: str, terms: Path | None, reject: Reject, output: Path,
            overwrite: bool, teacher: Path, student: Path | None, architecture: str | None,
            settings: DistillationConfig, config: RunConfig, resume: bool) -> int:
    """Teach a smaller masked language model what a larger one knows.

    FILES are records, or shards that "bmtools tokenize" made. Prints a JSON line per report, and
    one about the checkpoint. Signals, --budget and --resume work as in "bmtools pretrain".
    """
    if (student is None) == (architecture is None):
        raise click.UsageError("expected one of --student and --architecture")
    if any(phase.objective.objective != "masked" for phase in config.phases):
        raise click.UsageError("--objective: distillation restores masked words only")
    if run_settings(config, AdversarialConfig).adversarial:
        raise click.UsageError("--adversarial: distillation knows no adversary")
    check_replay(config, others)
    from bmtools.training.datasets import DataConfig
    from bmtools.training.distill import StudentInit, distill
    from bmtools.training.plan import check_targets, make_plan

    parents = {"teacher": hash_directory(teacher)}
    if student:
        parents["student"] = hash_directory(student)
    extra = {"teacher": str(teacher), "student": student and str(student),
             "architecture": architecture, "terms": terms and str(terms), **asdict(settings)}
    plan = replace(make_plan("distill", output, config, extra, parents), resume=resume,
                   overwrite=overwrite)
    check_targets(plan)
    wanted = DataConfig(trained, others, lang, segmenter, terms)
    lines = distill(plan, StudentInit(student, architecture), teacher, wanted, settings, reject)
    return print_metrics(lines, "distilling")
