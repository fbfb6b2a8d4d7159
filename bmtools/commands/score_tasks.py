"""`bmtools score-tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, takes_rejects, usage_errors, writes_file
from bmtools.cli.parameters import InputRecords, NamedInput
from bmtools.cli.results import asks_for_tables, finish, print_results, reports
from bmtools.cli.scoring_options import fails_under, scoring_closing
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.tables import estimated, print_lines, print_table
from bmtools.errors import Reject
from bmtools.io.sources import STDIN
from bmtools.records import JsonMapping
from bmtools.statistics.settings import StatisticsConfig
from bmtools.tasks.settings import TaskScoresConfig
from bmtools.values import format_estimate, heading, three_digits

_MOST_TYPES, _MOST_ERRORS = 4, 4


@click.command("score-tasks", cls=Command, examples=(
    "bmtools score-tasks test.jsonl found.jsonl",
    "bmtools score-tasks test.jsonl bio=found-0.jsonl bio=found-1.jsonl base=found.jsonl"),
    topics="records", next_command="report {output} -o report.html")
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
            plot: Path | None, output: str, details: str | None, fail_under: float | None,
            **options: Any) -> None:
    """Score predictions of a task against gold records, and compare models.

    GOLD contains annotated records. PREDICTIONS contains the same records as predict wrote them,
    in any order; no file or - means stdin. --task factoid matches questions, whose texts may
    differ. Prints a JSON line per file: the task's metrics with intervals over documents, counts,
    kinds of error, and the same by type or label. Files with the same NAME are seeds of one model:
    a line per metric has their mean, spread and intervals. For each pair of models, a line has the
    difference, the score of the first model minus the score of the second, with a permutation
    test. If mentions have scores, calibration compares the scores with the share of correct
    mentions.
    """
    from bmtools.scoring.regression_gate import check_bound
    from bmtools.tasks.metrics.samples import TASK_METRICS
    from bmtools.tasks.metrics.score_tasks import name_predictions, task_scores

    with usage_errors():
        if gold == STDIN and STDIN in (predictions or (STDIN,)):
            raise click.UsageError("found stdin for GOLD and PREDICTIONS; name a file for one")
        runs = name_predictions(predictions or step.sources(()))
        lines = task_scores(gold, runs, details=details, reject=reject, **options)
    print_results(step, lines, output,
                  _print_all if details or asks_for_tables(step) else _print_summary)
    if plot is not None:
        from bmtools.study.reports.report import plot_lines

        plot_lines(lines, plot)
    scored = [line for line in lines if "task" in line]
    main = TASK_METRICS[scored[0]["task"]].compared[0]
    if fail_under is not None:
        say(check_bound(scored, main, fail_under))
    unit = "questions" if "questions" in scored[0] else "records"
    finish(step, scoring_closing(lines, main, unit, lowest=False) + _verdict(lines, main))


def _verdict(lines: Sequence[JsonMapping], metric: str) -> str:
    """Return the difference of two models with its interval and p, if one pair was compared."""
    found = [line for line in lines if "compared" in line and line["metric"] == metric]
    return "".join(f"; {' - '.join(line['compared'])}: "
                   f"{format_estimate(metric, line['difference'], line['interval'])}, "
                   f"p {three_digits(line['p'])}" for line in found if len(found) == 1)


def _print_summary(lines: Sequence[JsonMapping]) -> None:
    """Print the main scores of all annotations and of each type, and the most frequent errors."""
    scored = [line for line in lines if "task" in line]
    main, strict = estimated(scored[0]) or "f1", "strict " * ("relaxed_f1" in scored[0])
    keys, rows = [*[key for key in ("precision", "recall") if key in scored[0]], main], []
    for line in scored:
        by = sorted(next(iter(line.get("by", {}).values()), {}).items(),
                    key=lambda one: -one[1].get("support", 0))
        rows += [[line["model"], kind, *(format_estimate(key, own.get(key), {
            **own.get("intervals", {}), main: own.get("interval")}.get(key)) for key in keys)]
            for kind, own in [("all", line), *by[:_MOST_TYPES]]]
    print_table(["model", "type", *(strict + heading(key) for key in keys)], rows, text_columns=2)
    for line in (line for line in scored if "confusion" in line):
        name = f" of {line['model']}" * (len(scored) > 1)
        print(f"Most frequent errors{name}: {_frequent_errors(line)}")
    print("--table shows all scores")
    print_lines([line for line in lines if line.get("metric") == main])


def _frequent_errors(line: JsonMapping) -> str:
    """Spell the most frequent kinds of wrong annotations, with their numbers."""
    from bmtools.tasks.metrics.errors import NONE

    counts = {f"false {found}" if gold == NONE else f"{gold} missed" if found == NONE else
              f"{gold} taken for {found}": count for gold, row in line.get("confusion", {}).items()
              for found, count in row.items() if gold != found}
    counts |= {"with wrong borders": line.get("errors", {}).get("boundary", 0)}
    ranked = sorted(counts, key=lambda words: -counts[words])[:_MOST_ERRORS]
    return ", ".join(f"{counts[words]} {words}" for words in ranked if counts[words]) or "none"


def _print_all(lines: Sequence[JsonMapping]) -> None:
    """Print all scores, with the confusion of types or labels in words."""
    from bmtools.tasks.metrics.errors import NONE

    print_lines([{**{key: value for key, value in line.items() if key != "confusion"}, **{
        f"annotated {'nothing' if gold == NONE else gold}, found": {
            "nothing" if found == NONE else found: count for found, count in row.items()}
        for gold, row in line.get("confusion", {}).items()}} for line in lines])
