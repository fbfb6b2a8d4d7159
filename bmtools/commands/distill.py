"""`bmtools distill`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.closing import after_training
from bmtools.cli.options import (
    Command,
    masked_lm_directory,
    takes_rejects,
    usage_errors,
    writes_directory,
)
from bmtools.cli.settings import takes_settings
from bmtools.cli.training_options import (
    TRAINING_FILES,
    TRAINING_GROUPS,
    check_and_launch,
    complete_architecture,
    describe_leftover,
    interruptible,
    launches,
    print_metrics,
    resumes,
    takes_data,
    takes_run_config,
)
from bmtools.errors import Reject
from bmtools.recipes.phases import RunConfig
from bmtools.recipes.settings import DistillationConfig
from bmtools.training.plan import (
    DISTILLATION_WARMUP,
    DataConfig,
    ModelInit,
    make_plan,
)


@click.command("distill", cls=Command, examples=(
    "bmtools distill corpus.jsonl --teacher model --architecture bert-tiny -o small",
    "bmtools distill shards --teacher model --architecture bert-1x64 --epochs 2 --resume -o small"),
    essential="teacher student architecture output resume epochs max-length batch-size "
              "learning-rate temperature", groups=TRAINING_GROUPS,
    topics="phases checkpoints devices",
    meanings={"files": TRAINING_FILES, "output": "Directory for the student.",
              "objective": "Objective; only masked works in distillation.",
              "adversarial": "Not in distillation: 0 is the only value."})
@launches
@takes_data
@takes_rejects
@writes_directory
@click.option("--teacher", type=masked_lm_directory, required=True, metavar="CKPT",
              help="Checkpoint to learn from; it is not changed.")
@click.option("--student", type=masked_lm_directory, metavar="CKPT",
              help="Pretrained checkpoint to train, with the teacher's vocabulary.")
@click.option("--architecture", metavar="NAME", shell_complete=complete_architecture,
              help="Train new weights instead: bert-tiny, bert-LAYERSxWIDTH, a config.json.")
@takes_settings(DistillationConfig, "settings")
@takes_run_config(warmup_ratio=DISTILLATION_WARMUP)
@resumes
def command(data: DataConfig, reject: Reject, output: Path, overwrite: bool, teacher: Path,
            student: Path | None, architecture: str | None, settings: DistillationConfig,
            config: RunConfig, resume: bool, processes: int, shard: bool) -> None:
    """Train a smaller masked language model to predict as a larger one.

    FILES are records, or shards made by "bmtools tokenize". Prints a JSON line per report, and one
    about the checkpoint. Signals, --budget and --resume work as in "bmtools pretrain".
    """
    init = ModelInit(student, architecture)
    with usage_errors():
        plan = make_plan(output, config, init, data, resume, overwrite, teacher, settings)
    check_and_launch(plan, init, data, processes, shard, teacher)
    with interruptible(lambda: describe_leftover(output)):
        from bmtools.training.distill import distill_lines

        lines = distill_lines(plan, init, teacher, data, settings, reject)
        print_metrics(lines, after_training)
