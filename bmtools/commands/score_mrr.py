"""`bmtools score-mrr`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, reads_records, writes_plot
from bmtools.cli.parameters import InputFile
from bmtools.cli.results import finish, print_results
from bmtools.cli.scoring_options import fails_under, scores_checkpoints, scoring_closing
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.errors import count_of
from bmtools.io.jsonl import RecordReader
from bmtools.records import JsonObject
from bmtools.scoring.settings import MrrConfig


@click.command("score-mrr", cls=Command, examples=(
    "bmtools score-mrr curated.jsonl --model base --model model",
    "bmtools score-mrr notes.jsonl --terms terms.txt --model model "
    "--details words.jsonl"),
    essential="model terms top-k multi-token ignore-case baseline by output fail-under plot",
    topics="masking devices", next_command="table {output}")
@scores_checkpoints(MrrConfig, "masked word")
@reads_records
@click.option("--terms", type=InputFile(allow_dash=False), metavar="FILE",
              help="Mask the words of these terms, one term per line, wherever they occur in texts "
                   "without a mask.")
@writes_plot("scores, and changes of ranks between checkpoints,")
@fails_under("a checkpoint's mrr")
@click.option("--fail-below-baseline", metavar="FILE",
              type=InputFile(Path, allow_dash=False),
              help="Exit with 3 if a checkpoint's mrr is below the reference in this file: lines "
                   "that score-mrr wrote, or the records of --baseline.")
def command(step: CommandStep, records: RecordReader, models: tuple[Path, ...],
            baseline: str | None, output: str, plot: Path | None, fail_under: float | None,
            fail_below_baseline: Path | None, **options: Any) -> None:
    """Score checkpoints by mean reciprocal rank of masked words.

    Records have a text with one [MASK] (for any checkpoint), the hidden word as target and, if
    known, a domain. In texts without a mask, each word of their entities and of --terms is masked
    once. Prints a JSON line per checkpoint: mrr with an interval over documents (sentences if
    records name no document), hits, ranks, counts, the same by domain, and a signature. For each
    pair of checkpoints, a line has the difference on the same maskings.
    """
    from bmtools.scoring.mrr import MaskScore, mrr
    from bmtools.scoring.regression_gate import check_bound, check_regression, read_reference

    reference = read_reference(fail_below_baseline) if fail_below_baseline else []
    if fail_below_baseline and not reference and baseline != str(fail_below_baseline):
        raise click.UsageError(
            f"--fail-below-baseline: found records in {fail_below_baseline}, expected lines that "
            "score-mrr wrote; to compare with their word frequencies, give --baseline too")
    words: list[JsonObject] = []

    def keep(score: MaskScore) -> None:
        if score.predictor < len(models):
            words.append({"model": str(models[score.predictor]), **score.line()})

    skipped: Counter[str] = Counter()
    lines = mrr(records, models, baseline=baseline, skipped=skipped,
                on_score=keep if plot else None, **options)
    for reason, count in skipped.items():
        if count:
            say(count_of(count, reason))
    print_results(step, lines, output)
    checkpoints = lines[:len(models)]
    if plot:
        from bmtools.study.reports.report import plot_lines

        plot_lines([*lines, *words], plot)
    if fail_under is not None:
        say(check_bound(checkpoints, "mrr", fail_under))
    if fail_below_baseline:
        say(check_regression(fail_below_baseline, reference, lines, len(models)))
    finish(step, scoring_closing(lines, "mrr", "maskings", lowest=False))
