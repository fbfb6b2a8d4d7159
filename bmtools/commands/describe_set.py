"""`bmtools describe-set`."""

from __future__ import annotations

import click

from bmtools.cli.options import Command, sources, takes_files, takes_rejects, writes_records
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, source_stem
from bmtools.status import counted


@click.command("describe-set", cls=Command, examples=(
    "bmtools describe-set train.jsonl dev.jsonl test.jsonl",
    "bmtools describe-set train.jsonl --table"),
    meanings={"output": "Write the JSON Lines here; .gz and .zst compress."}, topics="records")
@takes_files
@takes_rejects
@prints_results
@writes_records
def command(files: tuple[str, ...], reject: Reject, output: str) -> None:
    """Count a set's annotations, and say how uneven its labels are.

    Prints a JSON line for each file: records, documents, entities and relations by type, labels,
    and label_bias: the labels that are not the most frequent one, in relation to that; words
    inside of entities to those outside; the least repeats of an answer to the most.
    """
    from bmtools.evaluation.describe_set import describe_set

    lines = print_results(({"set": source_stem(name), **describe_set(
        counted(RecordReader([name], reject), "reading"))} for name in sources(files)), output)
    finish(f"described {sum(line['records'] for line in lines):,} records")
