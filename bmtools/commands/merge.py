"""`bmtools merge`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.closing import after_merge
from bmtools.cli.options import Command, checkpoint_directory, usage_errors, writes_directory
from bmtools.cli.results import finish, print_results, prints_results


@click.command("merge", cls=Command, examples=(
    "bmtools merge seed-0 seed-1 -o merged",
    "bmtools merge seed-0 seed-1 tagger -o merged"))
@click.argument("models", nargs=-1, required=True, type=checkpoint_directory, metavar="CKPT...")
@writes_directory
@prints_results
def command(models: tuple[Path, ...], output: Path, overwrite: bool) -> None:
    """Average the weights of checkpoints: seeds, folds or stages of one run.

    They must have one architecture, vocabulary and list of labels. What comes out is an ordinary
    checkpoint; "bmtools predict" with several --model lets models vote instead.
    """
    from bmtools.models.merge import merge

    with usage_errors():
        line = merge(models, output, overwrite=overwrite)
    print_results([line])
    finish(*after_merge(line))
