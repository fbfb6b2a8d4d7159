"""`bmtools score-pppl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bmtools.commands.options import Command, reads_records
from bmtools.commands.scoring import fail_where, scores_checkpoints
from bmtools.errors import Reject
from bmtools.io.streams import RecordReader


@click.command("score-pppl", cls=Command)
@reads_records
@scores_checkpoints
@click.option("--fail-over", type=float, metavar="X",
              help="Exit with 1 if a checkpoint's pppl is above X; lower is better.")
def command(records: RecordReader, reject: Reject, load: Callable[[], Any],
            report: Callable[..., Any], fail_over: float | None) -> None:
    """Score checkpoints by pseudo-perplexity.

    Prints a JSON line per checkpoint: pppl over all tokens, the mean over sentences, bits per
    character, what was counted, and a signature. A sentence that one checkpoint cannot take is
    kept from all.
    """
    from bmtools.scoring.pppl import Tally, score

    predictors = load()
    lines = report(score(records, predictors, reject), [Tally(one) for one in predictors])
    if fail_over is not None:
        fail_where(lambda pppl: not pppl <= fail_over, lines, "pppl", f"at most {fail_over:g}")
