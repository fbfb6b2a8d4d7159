"""`bmtools distill`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import masked_lm_directory, tokenizer_directory
from bmtools.cli.step import CommandStep
from bmtools.commands.training_options import (
    TRAINING_FILES,
    TrainingCommand,
    architecture,
    run_training,
    trains,
)
from bmtools.training.plan import DISTILLATION_WARMUP, make_init


@click.command("distill", cls=TrainingCommand, examples=(
    "bmtools distill corpus.jsonl --teacher model --architecture bert-tiny -o small",
    "bmtools distill shards --teacher model --architecture bert-1x64 --epochs 2 --resume -o small"),
    essential="teacher student architecture output resume dry-run set epochs max-length "
              "batch-size learning-rate",
    topics="phases checkpoints devices",
    next_command="score-pppl FILE --model {output}",
    meanings={"files": TRAINING_FILES,
              "output": "Directory for the student; not needed with --dry-run."})
@trains(without=["objective"], warmup_ratio=DISTILLATION_WARMUP)
@click.option("--teacher", type=masked_lm_directory, required=True, metavar="CKPT",
              help="Checkpoint to learn from; it is not changed.")
@click.option("--student", type=masked_lm_directory, metavar="CKPT",
              help="Pretrained checkpoint to train, with the teacher's vocabulary.")
@click.option("--architecture", metavar="NAME", type=architecture,
              help="Train new weights instead: bert-tiny, bert-LAYERSxWIDTH, a config.json.")
@click.option("--take-layers", default="", metavar="LAYERS",
              help="Start from some layers of --student or the teacher: even, a number of layers, "
                   "or layer numbers from 0, such as 0,2,4.")
@click.option("--tokenizer", type=tokenizer_directory, metavar="DIR",
              help="Tokenizer for --architecture (default: tokenizer of the teacher).")
def command(step: CommandStep, teacher: Path, student: Path | None, architecture: str | None,
            take_layers: str, tokenizer: Path | None, **options: Any) -> None:
    """Train a smaller masked language model to imitate a larger one.

    FILES are records, or shards made by "bmtools tokenize". Prints a JSON line for each report, and
    one about the checkpoint. Signals, --budget, --resume and --dry-run work as in "bmtools
    pretrain".

    --set changes the weights of the losses (mlm_weight, kl_weight, cosine_weight), the temperature
    and all other keys of the topic phases.
    """
    init = make_init(student or (teacher if take_layers else None), architecture, tokenizer,
                     take_layers)
    run_training(step, init, teacher=teacher, **options)
