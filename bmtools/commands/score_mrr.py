"""`bmtools score-mrr`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from bmtools.cli.options import Command, reads_records
from bmtools.cli.scoring_options import Scoring, fail_where, scores_checkpoints, shares_records
from bmtools.cli.settings import takes_settings
from bmtools.io.atomic import refuse_existing
from bmtools.io.jsonl import write_records
from bmtools.reports.drawing import ImageFormat
from bmtools.scoring.settings import MrrConfig

_existing_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("score-mrr", cls=Command)
@shares_records
@reads_records
@scores_checkpoints
@takes_settings(MrrConfig, "settings")
@click.option("--terms", type=_existing_file, metavar="FILE",
              help="Mask the words of these terms, one term a line, wherever they stand in texts "
                   "without a mask.")
@click.option("--unit", type=click.Choice(["word", "mention"]), default="word", show_default=True,
              help="What a masking hides of a term or entity: one word of it, or all.")
@click.option("--words", metavar="FILE",
              help="Write a line for each masked word here: its score under each checkpoint, and "
                   "whether it is never found, always, or by some.")
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Draw how ranks change from checkpoint to checkpoint, with a page of tables.")
@click.option("--plot-format", type=click.Choice(["svg", "png"]), default="svg", show_default=True,
              help="Of the pictures.")
@click.option("--sentence", metavar="ID",
              help="Masking whose proposals --plot shows; the one that changes most if not said.")
@click.option("--overwrite", is_flag=True, help="Replace the content of --plot's directory.")
@click.option("--fail-under", type=float, metavar="X",
              help="Exit with 1 if a checkpoint's mrr is below X.")
@click.option("--fail-below-baseline", type=_existing_file, metavar="FILE",
              help="Exit with 1 if a checkpoint's mrr is below that in this file: lines that "
                   "score-mrr wrote, or records whose token frequencies are the baseline.")
def command(scoring: Scoring, settings: MrrConfig, terms: Path | None,
            unit: Literal["word", "mention"], words: str | None,
            plot: Path | None, plot_format: ImageFormat, sentence: str | None,
            overwrite: bool, fail_under: float | None,
            fail_below_baseline: Path | None) -> None:
    """Score checkpoints by mean reciprocal rank of masked words.

    Records hold a text with one [MASK], whatever the checkpoint's own mask token is, the word
    behind it as target and, if known, a domain. In texts without a mask the words of their
    entities and of --terms are masked, each once. Prints a JSON line per checkpoint: mrr with an
    interval over sentences, hits, ranks, what was counted, the same by domain, and a signature;
    then one for each two checkpoints that says how they differ on the same maskings.
    """
    from bmtools.reports.drawing import require_matplotlib
    from bmtools.reports.mrr_report import write_mrr_report
    from bmtools.scoring.cloze import make_clozes, read_terms
    from bmtools.scoring.mrr import score_masked_words
    from bmtools.scoring.mrr_collector import MrrCollector
    from bmtools.scoring.mrr_totals import MrrTotals, agreement
    from bmtools.scoring.regression_gate import check_regression, read_reference

    if plot is not None:
        require_matplotlib()
        refuse_existing(plot, overwrite)
    known = read_terms(str(terms)) if terms else None
    bar = read_reference(fail_below_baseline) if fail_below_baseline else None
    if bar and not bar.lines:
        scoring = _with_baseline(scoring, str(fail_below_baseline))
    predictors = scoring.load()
    tallies = [MrrTotals(one, settings, scoring.by, scoring.statistics) for one in predictors]
    board = MrrCollector(len(scoring.models) if words or plot else 0)
    counts: Counter[str] = Counter()
    maskings = make_clozes(scoring.records, known, unit, scoring.reject, counts)
    lines = scoring.count(score_masked_words(maskings, predictors, settings, scoring.reject),
                          tallies,
                          board.add)
    for what, count in counts.items():
        if count:
            click.echo(f"bmtools: {count} {what}", err=True)
    scoring.report(lines, tallies, agreement)
    own = lines[:len(scoring.models)]
    if words:
        write_records(board.word_lines([line["model"] for line in own]), words)
    if plot:
        write_mrr_report(board.items, [line["model"] for line in own], own, plot, plot_format,
                         settings.top, sentence, overwrite)
    if fail_under is not None:
        fail_where(lambda mrr: not mrr >= fail_under, own, "mrr", f"at least {fail_under:g}")
    if bar:
        check_regression(bar, lines, len(own))


def _with_baseline(scoring: Scoring, name: str) -> Scoring:
    if scoring.baseline not in (None, name):
        raise click.UsageError("--fail-below-baseline: found other records than --baseline, "
                               "expected the same file")
    return replace(scoring, baseline=name)
