"""`bmtools clean`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from bmtools.cli.closing import after_clean
from bmtools.cli.options import (
    Command,
    allows_empty,
    input_file,
    reads_records,
    writes_file,
    writes_records,
)
from bmtools.cli.results import finish, write_stream
from bmtools.cli.settings import takes_settings
from bmtools.corpus.cleaning.settings import FilterConfig, PersonalDataConfig, RepairConfig
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import encode_lines, open_output
from bmtools.io.spool import rereadable
from bmtools.records import Record


@click.command("clean", cls=Command, examples=(
    "bmtools clean corpus.jsonl --min-words 5 -o clean.jsonl",
    "bmtools clean corpus.jsonl --repairs basic,copyright,navigation,repeated-lines "
    "--languages it,en --dropped dropped.jsonl -o clean.jsonl.zst"),
    essential="repairs min-words max-words languages drop-truncated from-year to-year licences "
              "personal-data dropped output",
    groups={"Output": "output dropped rejects",
            "Repairs of text": "repairs max-line-copies remove"}, topics="records",
    meanings={"output": "Write the records that stay here; .gz and .zst compress."})
@reads_records
@allows_empty
@writes_records
@writes_file("--dropped", "Write the records left out, with the rule and what it found under "
             "meta.dropped.")
@takes_settings(RepairConfig, "repairs")
@click.option("--remove", type=input_file, metavar="FILE",
              help="Remove what these regular expressions match, one a line.")
@takes_settings(FilterConfig, "filters")
@takes_settings(PersonalDataConfig, "personal_data")
def command(records: RecordReader, reject: Reject, output: str, dropped: str | None,
            remove: str | None, **configs: Any) -> None:
    """Repair the texts of records, and leave out those a corpus should not have.

    Entities, answers and sections move with their text. Each rule is counted on stderr; records
    that stay come out the same from a second pass with the same options.
    """
    from bmtools.corpus.cleaning.clean import Cleaner, clean
    from bmtools.corpus.cleaning.lines import copied_lines, read_patterns

    most, counts = configs["repairs"].max_line_copies, Counter[str]()
    unwanted = read_patterns(remove) if remove else ()
    with _aside(dropped) as set_aside, ExitStack() as stack:
        if most:
            records.names = stack.enter_context(rereadable(records.names))
        cleaner = Cleaner(**configs, unwanted=unwanted,
                          copied_lines=copied_lines(records, most) if most else ())
        kept = write_stream(clean(records, cleaner, counts, set_aside, reject), output, "cleaning")
    finish(*after_clean(kept, counts, output))


@contextmanager
def _aside(dropped: str | None) -> Iterator[Callable[[Record], object]]:
    """Open the file of records left out."""
    if dropped is None:
        yield lambda record: None
        return
    with open_output(dropped) as stream:
        yield lambda record: stream.write(encode_lines([record]))
