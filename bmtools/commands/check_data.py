"""`bmtools check-data`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, reads_records
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader


@click.command("check-data", cls=Command, examples=(
    "bmtools check-data train.jsonl dev.jsonl test.jsonl", "bmtools check-data train.jsonl --json"),
    topics="records")
@reads_records
@prints_results
def command(step: CommandStep, records: RecordReader, reject: Reject) -> None:
    """Check an annotated set for faults that lower scores, and name a fix for each.

    Name the file to learn from first. Finds entities that tags cannot represent, labels with few
    examples or missing from the first file, empty and repeated records, conflicting labels, and
    documents, texts and questions that two files share.
    """
    from bmtools.corpus.check_data import check_data
    from bmtools.corpus.overlap import by_file

    parts = by_file(records)
    lines = print_results(step, check_data(parts))
    found = count_of(len(lines), "faults") if lines else "no faults"
    finish(step, f"checked {count_of(sum(map(len, parts.values())), 'records')}; found {found}")
