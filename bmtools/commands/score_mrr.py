"""`bmtools score-mrr`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bmtools.commands.options import Command, reads_records
from bmtools.commands.scoring import fail_where, scores_checkpoints
from bmtools.commands.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.streams import RecordReader
from bmtools.scoring.settings import MrrSettings


@click.command("score-mrr", cls=Command)
@reads_records
@scores_checkpoints
@takes_settings(MrrSettings, "settings")
@click.option("--fail-under", type=float, metavar="X",
              help="Exit with 1 if a checkpoint's mrr is below X.")
def command(records: RecordReader, reject: Reject, load: Callable[[], Any],
            report: Callable[..., Any], settings: MrrSettings, fail_under: float | None) -> None:
    """Score checkpoints by mean reciprocal rank of masked words.

    Records hold a text with one [MASK], whatever the checkpoint's own mask token is, the word
    behind it as target and, if known, a domain. Prints a JSON line per checkpoint: mrr, hits,
    what was counted, the same by domain, and a signature.
    """
    from bmtools.scoring.mrr import Tally, score

    predictors = load()
    lines = report(score(records, predictors, settings, reject),
                   [Tally(predictor, settings) for predictor in predictors])
    if fail_under is not None:
        fail_where(lambda mrr: not mrr >= fail_under, lines, "mrr", f"at least {fail_under:g}")
