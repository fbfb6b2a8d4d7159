"""`bmtools score-tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, takes_rejects, usage_errors, writes_file
from bmtools.cli.parameters import InputRecords, NamedInput
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.scoring_options import fails_under, scoring_closing
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject
from bmtools.io.sources import STDIN
from bmtools.statistics.settings import StatisticsConfig
from bmtools.tasks.settings import TaskScoresConfig


@click.command("score-tasks", cls=Command, examples=(
    "bmtools score-tasks test.jsonl found.jsonl",
    "bmtools score-tasks test.jsonl bio=found-0.jsonl bio=found-1.jsonl base=found.jsonl"),
    topics="records", next_command="table {output}")
@click.argument("gold", type=InputRecords())
@click.argument("predictions", nargs=-1, type=NamedInput(InputRecords()),
                metavar="[[NAME=]PREDICTIONS]...")
@takes_rejects
@writes_file("--details", "Write a line for each wrong mention, or for each wrong record, to this "
             "file.")
@reports("the scores", plot="how often mentions of each score are right")
@fails_under("the first metric of any predictions")
@takes_values(TaskScoresConfig, StatisticsConfig)
def command(step: CommandStep, gold: str, predictions: tuple[str, ...], reject: Reject,
            plot: Path | None, output: str, fail_under: float | None, **options: Any) -> None:
    """Score predictions of a task against gold records, and compare models.

    GOLD contains annotated records. PREDICTIONS contains the same records as predict wrote them,
    in any order; no file or - means stdin. --task factoid matches questions, whose texts may
    differ. Prints a JSON line per file: the task's metrics with intervals over documents, counts,
    kinds of error, and the same by type or label. Files with the same NAME are seeds of one model:
    a line per metric has their mean, spread and intervals. For each pair of models, a line has the
    difference with a permutation test. If mentions have scores, calibration compares the scores
    with the share of correct mentions.
    """
    from bmtools.scoring.regression_gate import check_bound
    from bmtools.tasks.metrics.samples import TASK_METRICS
    from bmtools.tasks.metrics.score_tasks import name_predictions, task_scores

    with usage_errors():
        if gold == STDIN and STDIN in (predictions or (STDIN,)):
            raise click.UsageError("found stdin for GOLD and PREDICTIONS; name a file for one")
        runs = name_predictions(predictions or step.sources(()))
        lines = task_scores(gold, runs, reject=reject, **options)
    print_results(step, lines, output)
    if plot is not None:
        from bmtools.study.reports.report import plot_lines

        plot_lines(lines, plot)
    scored = [line for line in lines if "task" in line]
    main = TASK_METRICS[scored[0]["task"]].compared[0]
    if fail_under is not None:
        check_bound(scored, main, at_least=fail_under)
    unit = "questions" if "questions" in scored[0] else "records"
    finish(step, scoring_closing(lines, main, unit, lowest=False))
