"""`bmtools score-mrr`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Command, reads_records, takes_overwrite, writes_file
from bmtools.cli.parameters import InputFile, OutputDirectory
from bmtools.cli.results import finish, print_results
from bmtools.cli.scoring_options import scores_checkpoints, scoring_closing
from bmtools.cli.step import CommandStep
from bmtools.distributed import is_main_process
from bmtools.errors import count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import write_records
from bmtools.scoring.settings import MrrConfig
from bmtools.study.reports.drawing import ImageFormat


@click.command("score-mrr", cls=Command, examples=(
    "bmtools score-mrr curated.jsonl --model base --model model",
    "bmtools score-mrr notes.jsonl --terms terms.txt --model model "
    "--word-report words.jsonl"),
    essential="model terms top-k multi-token ignore-case baseline by output fail-under plot",
    groups={"Model": "model baseline", "Masked words": "terms mask-unit",
            "Measure": "top-k multi-token ignore-case beam-size context-tokens like",
            "Scores": "by details word-report output fail-under fail-below-baseline",
            "Plots": "plot plot-format sentence overwrite"}, topics="masking devices",
    meanings={"output": "Write the scores here; .gz and .zst compress.",
              "details": "Write a line for each masked word and checkpoint here."})
@scores_checkpoints(MrrConfig)
@reads_records
@click.option("--terms", type=InputFile(allow_dash=False), metavar="FILE",
              help="Mask the words of these terms, one term a line, wherever they occur in texts "
                   "without a mask.")
@click.option("--mask-unit", type=Choice(["word", "mention"]), default="word",
              show_default=True, help="Mask single words of terms and entities, or all of one.")
@writes_file("--word-report", "Write a line for each masked word here: its score under each "
             "checkpoint, and whether it is found never, always or sometimes.")
@click.option("--plot", type=OutputDirectory(), metavar="DIR",
              help="Draw how ranks change from checkpoint to checkpoint, with a page of tables.")
@click.option("--plot-format", type=Choice(["svg", "png"]), default="svg", show_default=True,
              help="Format of the plots.")
@click.option("--sentence", metavar="ID",
              help="Masking whose proposals --plot shows; by default the one that changes most.")
@takes_overwrite
@click.option("--fail-under", type=float, metavar="X",
              help="Exit with 1 if a checkpoint's mrr is below X.")
@click.option("--fail-below-baseline", metavar="FILE",
              type=InputFile(Path, allow_dash=False),
              help="Exit with 1 if a checkpoint's mrr is below that in this file: lines that "
                   "score-mrr wrote, or records whose token frequencies are the baseline.")
def command(step: CommandStep, records: RecordReader, models: tuple[Path, ...],
            baseline: str | None, output: str, word_report: str | None, plot: Path | None,
            plot_format: ImageFormat, sentence: str | None, overwrite: bool,
            fail_under: float | None, fail_below_baseline: Path | None, **options: Any) -> None:
    """Score checkpoints by mean reciprocal rank of masked words.

    Records have a text with one [MASK], whatever the checkpoint's own mask token is, the word
    behind it as target and, if known, a domain. In texts without a mask the words of their
    entities and of --terms are masked, each once. Prints a JSON line per checkpoint: mrr with an
    interval over sentences, hits, ranks, counts, the same by domain, and a signature; then one
    for each two checkpoints with their difference on the same maskings.
    """
    if plot is not None:
        from bmtools.installation import require_matplotlib

        require_matplotlib()
    from bmtools.scoring.mrr import mrr
    from bmtools.scoring.regression_gate import check_bound, check_regression, read_reference
    from bmtools.study.reports.mrr_report import write_mrr_report
    from bmtools.study.reports.mrr_summary import MrrCollector

    reference = read_reference(fail_below_baseline) if fail_below_baseline else []
    if fail_below_baseline and not reference:
        if baseline not in (None, str(fail_below_baseline)):
            raise click.UsageError("--fail-below-baseline: found other records than --baseline, "
                                   "expected the same file")
        baseline = str(fail_below_baseline)
    collector = MrrCollector(len(models)) if word_report or plot else None
    skipped: Counter[str] = Counter()
    lines = mrr(records, models, baseline=baseline, skipped=skipped,
                on_score=collector.add if collector else None, **options)
    if not is_main_process():
        return
    for reason, count in skipped.items():
        if count:
            click.echo(f"bmtools: {count_of(count, reason)}", err=True)
    print_results(step, lines, output)
    checkpoints = lines[:len(models)]
    names = [line["model"] for line in checkpoints]
    if collector and word_report:
        write_records(collector.word_lines(names), word_report)
    if collector and plot:
        write_mrr_report(collector.items, names, checkpoints, plot, plot_format, options["top_k"],
                         sentence, overwrite)
    if fail_under is not None:
        check_bound(checkpoints, "mrr", at_least=fail_under)
    if fail_below_baseline:
        check_regression(fail_below_baseline, reference, lines, len(models))
    finish(step, *scoring_closing(lines, "mrr", "maskings", output, lowest=False))
