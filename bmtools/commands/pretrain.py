"""`bmtools pretrain`."""

from __future__ import annotations

from typing import Any

import click

from bmtools.cli.step import CommandStep
from bmtools.commands.training_options import (
    TRAINING_FILES,
    TrainingCommand,
    run_training,
    takes_model_init,
    trains,
)
from bmtools.training.plan import ModelInit


@click.command("pretrain", cls=TrainingCommand, examples=(
    "bmtools pretrain corpus.jsonl --model model --epochs 3 -o adapted",
    "bmtools pretrain shards --architecture bert-tiny --tokenizer vocabulary "
    "--steps 100 --max-length 64 -o new"),
    essential="model architecture tokenizer output resume dry-run recipe set epochs max-length "
              "learning-rate",
    topics="phases masking checkpoints devices",
    next_command="score-pppl FILE --model {output}",
    meanings={"files": TRAINING_FILES,
              "output": "Directory for the checkpoint; not needed with --dry-run."})
@trains(takes_model_init)
def command(step: CommandStep, model: ModelInit, **options: Any) -> None:
    """Train a masked language model from scratch or from a checkpoint, in phases.

    FILES are records, or shards made by "bmtools tokenize". Prints a JSON line for each report, and
    one about the checkpoint.

    Ctrl-C, SIGTERM, SIGUSR1 and --budget end a session after the current step: it saves a state,
    prints a line with the key "stopped" and exits with 75 (with 0 under torchrun and accelerate
    launch). The same command with --resume then continues, and exits with 0 when the checkpoint is
    written. A second Ctrl-C exits immediately with 130, without saving a new state.

    --dry-run prints one JSON line instead: steps, tokens, memory, tokens per second, hours and
    energy, measured on this machine.
    """
    run_training(step, model, **options)
