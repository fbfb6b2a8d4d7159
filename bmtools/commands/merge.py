"""`bmtools merge`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bmtools.cli.options import Command, checkpoint_directory, writes_directory
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.errors import count_of
from bmtools.training.plan import last_kept


@click.command("merge", cls=Command, examples=(
    "bmtools merge seed-0 seed-1 -o merged",
    "bmtools merge model --kept 3 -o merged"))
@click.argument("models", nargs=-1, required=True, type=checkpoint_directory, metavar="CKPT...")
@click.option("--kept", type=click.IntRange(min=1), metavar="N",
              help="Average the last N checkpoints that --keep-steps kept in each run instead.")
@writes_directory
@prints_results
def command(step: CommandStep, models: Sequence[Path], kept: int | None, output: Path,
            overwrite: bool) -> None:
    """Average the weights of checkpoints: seeds, folds or stages of one run.

    They must have the same architecture, vocabulary, labels and, if they were fine-tuned, the
    same settings of their task. The result is an ordinary checkpoint.
    """
    from bmtools.models.merge import merge
    from bmtools.study.cards.card import write_cards

    if kept:
        models = [path for model in models for path in last_kept(model, kept)]
    if len(models) < 2:
        raise click.UsageError(f"found 1 checkpoint, {models[0]}, expected 2 or more to average"
                               + ("; raise --kept, or give more runs" if kept else ""))
    line = merge(models, output, overwrite=overwrite, step=step)
    write_cards(output)
    print_results(step, [line])
    finish(step, f"wrote {output}: the mean of {count_of(line['models'], 'models')}")
