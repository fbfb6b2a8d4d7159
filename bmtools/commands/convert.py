"""`bmtools convert`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import (
    Command,
    existing_directory,
    tokenizer_directory,
    usage_errors,
    writes_directory,
)
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of
from bmtools.models.settings import Casing


@click.command("convert", cls=Command, examples=(
    "bmtools convert published --casing cased -o model",
    "bmtools convert published --tokenizer vocabulary -o model"))
@click.argument("checkpoint", type=existing_directory, metavar="DIR")
@writes_directory
@click.option("--tokenizer", type=tokenizer_directory, metavar="DIR",
              help="Tokenizer to use if DIR contains none.")
@click.option("--casing", type=Choice(get_args(Casing)),
              help="Whether text keeps its case; required if DIR has vocab.txt without a config.")
@prints_results
def command(step: CommandStep, checkpoint: Path, output: Path, overwrite: bool,
            tokenizer: Path | None, casing: Casing | None) -> None:
    """Convert a published checkpoint into one that all commands can read.

    DIR contains pytorch_model.bin, in one or several files, or Megatron-LM's model_optim_rng.pt for
    BERT. Loading such files can run code. This command runs no code from them, and rejects files
    that contain code.
    """
    from bmtools.models.convert import convert
    from bmtools.study.cards.card import write_cards

    with usage_errors():
        line = convert(checkpoint, output, tokenizer=tokenizer, casing=casing,
                       overwrite=overwrite, step=step)
    write_cards(output)
    print_results(step, [line])
    left_out = f"; left out {count_of(len(line['left_out']), 'tensors')}" * bool(line["left_out"])
    prefix = line["removed_prefix"] and f"; removed {line['removed_prefix']} from all names"
    finish(step, f"wrote {line['checkpoint']}: {line['class']}, {line['casing']}{left_out}{prefix}")
