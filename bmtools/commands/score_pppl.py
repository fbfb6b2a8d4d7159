"""`bmtools score-pppl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, reads_records
from bmtools.cli.results import finish, print_results
from bmtools.cli.scoring_options import scores_checkpoints, scoring_closing
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.io.jsonl import RecordReader
from bmtools.scoring.settings import PpplConfig


@click.command("score-pppl", cls=Command, examples=(
    "bmtools score-pppl notes.jsonl --model model",
    "bmtools score-pppl notes.jsonl --model base --model model --by source"),
    essential="model variant like baseline by details output fail-over device",
    topics="masking devices", next_command="table {output}")
@scores_checkpoints(PpplConfig, "sentence")
@reads_records
@click.option("--fail-over", type=float, metavar="X",
              help="Exit with 3 if a checkpoint's pppl is above X; lower is better.")
def command(step: CommandStep, records: RecordReader, models: tuple[Path, ...], output: str,
            fail_over: float | None, **options: Any) -> None:
    """Score checkpoints by pseudo-perplexity.

    Prints a JSON line per checkpoint: pppl over all tokens with an interval over documents, the
    mean over sentences, bits per character and per word, counts, and a signature. For each pair of
    checkpoints, a line has the difference on the same sentences. A sentence that is too long for
    one checkpoint is not scored with any.
    """
    from bmtools.scoring.pppl import pppl
    from bmtools.scoring.regression_gate import check_bound

    lines = pppl(records, models, **options)
    print_results(step, lines, output)
    if fail_over is not None:
        say(check_bound(lines[:len(models)], "pppl", fail_over, at_most=True))
    finish(step, scoring_closing(lines, "pppl", "sentences"))
