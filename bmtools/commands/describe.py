"""`bmtools describe`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bmtools.cli.options import Command, takes_files, takes_rejects
from bmtools.cli.parameters import NameOrFile
from bmtools.cli.pass_options import takes_workers
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import print_tables
from bmtools.errors import Reject, count_of
from bmtools.io.workers import Workers
from bmtools.study.corpora.settings import DescribeConfig


@click.command("describe", cls=Command, examples=(
    "bmtools describe train.jsonl dev.jsonl test.jsonl --total",
    "bmtools describe corpus.jsonl --topics medicine --table"), topics="records")
@takes_files
@takes_rejects
@click.option("--topics", metavar="medicine|FILE",
              type=NameOrFile(lambda name: name == "medicine", lambda: ["medicine"]),
              help="Also count records by topic: the topic with most keywords in the text. A TOML "
                   "file has a list for each topic, Cardiology = [\"cardi*\", \"heart failure\"].")
@click.option("--total", is_flag=True, help="Also describe all files together.")
@takes_settings(DescribeConfig, "config")
@takes_workers
@reports("the JSON Lines", plot="lengths, words by frequency, topics, years and origins")
def command(step: CommandStep, files: tuple[str, ...], reject: Reject,
            topics: str | None, total: bool, config: DescribeConfig,
            plot: Path | None, workers: Workers, output: str) -> None:
    """Describe corpora and sets: sizes, lengths, origins, words, topics, labels.

    Prints a JSON line for each file: records, documents, megabytes of text (10^6 bytes of UTF-8,
    including titles), words, lengths of records, languages, licences, years, sources and distinct
    words by frequency. For sets it also counts entities and relations by type, words by label (O,
    and B- and I- with the type) and labels. label_bias has ratios: other labels to the most
    frequent label, words inside entities to words outside, and repeats of the rarest answer to
    repeats of the most frequent one.
    """
    if topics not in (None, "medicine") and not Path(topics or "").is_file():
        raise click.UsageError(f"--topics: found {topics!r}, expected medicine or a TOML file")
    from bmtools.study.corpora.describe import describe
    from bmtools.study.corpora.topics import read_topics
    from bmtools.study.reports.report import plot_lines, tables_of

    lines = print_results(step, describe(
        step.sources(files), total=total,
        topics=read_topics(topics) if topics else None, reject=reject, workers=workers,
        **asdict(config)),
        output, lambda lines: print_tables(tables_of(lines)))
    if plot is not None:
        plot_lines(lines, plot)
    own = [line for line in lines if "records" in line][:len(files) or 1]
    finish(step, f"described {count_of(sum(line['records'] for line in own), 'records')}, "
           f"{count_of(sum(line['words'] for line in own), 'words')}")
