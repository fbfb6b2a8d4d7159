"""`bmtools score-suite`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from bmtools.cli.options import Command, usage_errors
from bmtools.cli.parameters import InputRecords, NamedInput, NameOrFile
from bmtools.cli.results import (
    Line,
    as_tables,
    finish,
    print_results,
    reports,
)
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import print_table, terminal_width
from bmtools.records import JsonObject
from bmtools.study.suites.suite import Shown, Suite, SuiteSet, load_suite, suite_names

_WIDEST = 10_000


@click.command("score-suite", cls=Command, examples=(
    "bmtools score-suite --suite blurb NCBI-disease=scores.jsonl",
    "bmtools score-suite --suite biobit NCBI-disease=scores.jsonl --published all --table"),
    next_command="table {output}")
@click.argument("results", nargs=-1, metavar="[[SET=]RESULTS]...",
                type=NamedInput(InputRecords(Path.is_dir)))
@click.option("--suite", required=True, metavar="NAME|FILE",
              type=NameOrFile(lambda name: name in suite_names(), suite_names),
              help=f"Suite: {', '.join(suite_names())}, or your own TOML file.")
@click.option("--published", type=click.Choice(get_args(Shown)), default="main", show_default=True,
              help="Published scores to show with yours: tables that compare models, or all.")
@click.option("--compare-with", "baseline", metavar="MODEL",
              help="Also show differences from this model, in points and in percent of its score.")
@click.option("--name", metavar="NAME", help="Name of the model of all results, if the files spell "
              "it differently.")
@click.option("--sets", "lists_sets", is_flag=True, help="Print the suite's sets instead, with "
              "task, metrics, groups and sizes; reads no results.")
@click.option("--format", "form", type=click.Choice(["latex"]),
              help="Print tables for LaTeX; --table prints Markdown if stdout is not a terminal.")
@reports("the JSON Lines", plot="the scores of all models")
def command(step: CommandStep, results: tuple[str, ...], suite: str, published: Shown,
            baseline: str | None, name: str | None, lists_sets: bool, form: str | None,
            plot: Path | None, output: str) -> None:
    """Average scores on a benchmark suite in the same way as its paper.

    RESULTS are JSON Lines from score-tasks or finetune, or directories from finetune; no file or -
    means stdin. The set is named by SET=, or by the file name, or by the key "set" in lines. Prints
    a JSON line for each model: scores in percent, deviations over seeds, averages, missing sets.
    Models with missing sets have no average of the suite; instead, all models get an average over
    the sets that are present.
    """
    with usage_errors():
        chosen = load_suite(suite)
    if lists_sets:
        print_results(step, map(_describe, chosen.sets), output)
        return
    from bmtools.study.suites.score_suite import suite_scores

    with usage_errors():
        lines = suite_scores(suite, step.sources(results), published=published, baseline=baseline,
                             name=name)
    if form:
        as_tables(step)
    print_results(step, lines, output, lambda shown: _print_tables(shown, chosen, form))
    if plot is not None:
        from bmtools.study.reports.report import plot_lines

        plot_lines(lines, plot)
    finish(step, closing(lines, len(chosen.sets)))


def _describe(one: SuiteSet) -> JsonObject:
    described = {key: ", ".join(value) if isinstance(value, tuple) else value
                 for key, value in asdict(one).items() if value not in (None, "")}
    return {"set": described.pop("name"), **described}


def _print_tables(lines: Sequence[Any], suite: Suite, form: str | None) -> None:
    from bmtools.study.suites.suite_report import latex_table, suite_tables

    for number, table in enumerate(suite_tables(lines, suite, _WIDEST if form else
                                                terminal_width())):
        if number:
            click.echo()
        if form:
            click.echo(latex_table(*table), nl=False)
        else:
            title, header, rows = table
            print_table(header, rows, title)


def closing(lines: Sequence[Line], sets: int) -> str:
    """Return the closing line of `score-suite`: sets scored for each model, and its average."""
    facts = []
    for line in lines:
        if "model" in line and "table" not in line:
            has = f"{line['model']} has {sets - len(line.get('missing', []))} of {sets} sets"
            averages = [f"{name} {value:.2f}" for name, value in line.get("averages", {}).items()]
            facts.append(", ".join([has, *averages[-1:]]))
    return "; ".join(facts)
