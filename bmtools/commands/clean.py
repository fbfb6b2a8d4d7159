"""`bmtools clean`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from bmtools.cli.options import Command, input_file, passes_records, writes_file
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import open_if_named, write_lines
from bmtools.corpus.cleaning.settings import FilterConfig, PersonalDataConfig, RepairConfig
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import read_blocks
from bmtools.io.workers import RecordWorker


@click.command("clean", cls=Command, examples=(
    "bmtools clean corpus.jsonl --min-words 5 -o clean.jsonl",
    "bmtools clean corpus.jsonl --repairs basic,copyright,navigation,repeated-lines "
    "--languages it,en --dropped dropped.jsonl -o clean.jsonl.zst"),
    essential="repairs min-words max-words languages drop-truncated from-year to-year licences "
              "personal-data dropped output",
    topics="records", next_command="dedup {output} -o distinct.jsonl")
@passes_records("the records kept")
@writes_file("--dropped", "Write the records left out, with the rule and the value it found under "
             "meta.dropped.")
@takes_settings(RepairConfig, "repairs")
@click.option("--remove", type=input_file, metavar="FILE",
              help="Remove text that matches these regular expressions, one per line.")
@takes_settings(FilterConfig, "filters")
@takes_settings(PersonalDataConfig, "personal_data")
@takes_passes
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            dropped: str | None, remove: str | None, passes: Passes, **configs: Any) -> None:
    """Repair the texts of records, and remove records unfit for a corpus.

    Offsets of entities, answers and sections are updated. The effect of each rule is counted on
    stderr. A second pass with the same options does not change the output.
    """
    from bmtools.corpus.cleaning.clean import Cleaner
    from bmtools.corpus.cleaning.filters import warn_of_unnamed_licences
    from bmtools.corpus.cleaning.repairs import read_patterns

    configs["unwanted"] = read_patterns(remove) if remove else ()
    Cleaner(**configs)  # reports missing packages before any work
    warn_of_unnamed_licences(configs["filters"])
    settings = {**{name: repr(config) for name, config in configs.items()},
                "unwanted": [pattern.pattern for pattern in configs["unwanted"]]}
    with passes.opened(output, settings) as run, open_if_named(dropped) as aside:
        worker = partial(RecordWorker, partial(Cleaner, **configs))
        lines = run.lines(read_blocks(records), worker, reject, aside, "cleaning")
        write_lines(step, lines, output)
    counts, facts = run.counts, []  # dropped RULE, changed RULE, found KIND, places RULE
    for what in ("dropped", "changed", "found"):
        rules = {name.removeprefix(f"{what} "): count for name, count in sorted(counts.items())
                 if name.startswith(f"{what} ")}
        listed = (f"{rule} {count:,}" + (f" (places {places:,})" if (
            places := counts.get(f"places {rule}", 0)) and what != "dropped" else "")
            for rule, count in rules.items())
        facts += [f"{what}: {', '.join(listed)}"] if rules else []
    lost = sum(count for name, count in counts.items() if name.startswith("dropped "))
    kept = f"{run.records:,} of {count_of(run.records + lost, 'records')}{to_output(output)}"
    finish(step, "; ".join([kept, *facts]))
