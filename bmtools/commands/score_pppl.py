"""`bmtools score-pppl`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, reads_records
from bmtools.cli.scoring_options import Scoring, fail_where, scores_checkpoints, shares_records
from bmtools.cli.settings import takes_settings
from bmtools.scoring.settings import PpplConfig


@click.command("score-pppl", cls=Command)
@shares_records
@reads_records
@scores_checkpoints
@takes_settings(PpplConfig, "settings")
@click.option("--fail-over", type=float, metavar="X",
              help="Exit with 1 if a checkpoint's pppl is above X; lower is better.")
def command(scoring: Scoring, settings: PpplConfig, fail_over: float | None) -> None:
    """Score checkpoints by pseudo-perplexity.

    Prints a JSON line per checkpoint: pppl over all tokens with an interval over sentences, the
    mean over sentences, bits per character and per word, what was counted, and a signature; then
    one for each two checkpoints that says how they differ on the same sentences. A sentence that
    one checkpoint cannot take is kept from all.
    """
    from bmtools.scoring.pppl import PpplTotals, score_sentences

    predictors = scoring.load()
    tallies = [PpplTotals(one, settings, scoring.by, scoring.statistics) for one in predictors]
    lines = scoring.count(score_sentences(scoring.records, predictors, settings, scoring.reject,
                                scoring.statistics.seed), tallies)
    scoring.report(lines, tallies)
    if fail_over is not None:
        fail_where(lambda pppl: not pppl <= fail_over, lines[:len(scoring.models)], "pppl",
                   f"at most {fail_over:g}")
