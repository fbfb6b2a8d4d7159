"""`bmtools split`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bmtools.cli.options import Command, input_file, reads_records
from bmtools.cli.parameters import OutputDirectory
from bmtools.cli.results import Line, finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.corpus.overlap import by_file, describe_shared, overlaps
from bmtools.corpus.split import SplitConfig, write_split
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.records import JsonObject


@click.command("split", cls=Command, examples=(
    "bmtools split train.jsonl --ratios 0.6,0.2,0.2 --stratify label -o parts",
    "bmtools split --check train.jsonl test.jsonl"), topics="records",
    meanings={"output": "Directory for the parts; required without --check."})
@reads_records
@click.option("-o", "--output", type=OutputDirectory(), metavar="DIR",
              help="Directory to write; required without --check.")
@takes_settings(SplitConfig, "config")
@click.option("--by", type=input_file, metavar="FILE",
              help="Split as in this file; each line has a document or id, a tab and the name of "
                   "its part, as in split.tsv of an earlier split.")
@click.option("--check", is_flag=True,
              help="Only report the documents, texts and questions that the files share.")
@prints_results
def command(step: CommandStep, records: RecordReader, reject: Reject, output: Path | None,
            overwrite: bool, config: SplitConfig, by: str | None, check: bool) -> None:
    """Split records into train, dev and test or folds, by document and text.

    A document is given by meta.document, or by the id without the sentence (DOC-s3), or is the
    record itself. Documents that share a text are kept together. The same documents, settings and
    seed produce the same split, which split.tsv records. Prints the number of documents and records
    in each part, the number of documents kept together, and the number of records in a part whose
    document, text or question also occurs in another part.
    """
    if check == (output is not None):
        raise click.UsageError("expected either -o DIR or --check, which writes no output")
    if check:
        lines = print_results(step, _compare(records))
        finish(step, _describe(lines))
        return
    assert output is not None
    report = write_split(records, output, config, by, reject, overwrite, step)
    [line] = print_results(step, [report])
    sizes = ", ".join(f"{name} {size:,}" for name, size in line["records"].items())
    moved = f"{count_of(line['together'], 'documents')} that share {config.together} stay " \
            "together; " if "together" in line else ""
    alone = ", each a document of its own" * (line["documents"] == line["records"])
    finish(step, f"wrote {output}: {sizes} records{alone}; {moved}{_describe(line['overlap'])}")


def _describe(shared: Sequence[Line]) -> str:
    return describe_shared(shared) or "no parts share a document, text or question"


def _compare(records: RecordReader) -> list[JsonObject]:
    """Compare the files that records were read from."""
    if len({*records.names}) < 2:
        raise click.UsageError(f"--check: found {len({*records.names})} file, expected two or more")
    return list(overlaps(by_file(records)))
