"""`bmtools decontaminate`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import click

from bmtools.cli.options import Command, input_file, passes_records, writes_file
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.writing import open_if_named, write_lines
from bmtools.corpus.duplicates.settings import ContaminationConfig, contaminated_texts
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader


@click.command("decontaminate", cls=Command, examples=(
    "bmtools decontaminate corpus.jsonl --evaluation test.jsonl --least-words 4 --hits hits.jsonl "
    "-o clean.jsonl",
    "bmtools decontaminate corpus.jsonl --evaluation test.jsonl --least-words 4 --action report "
    "--hits hits.jsonl > /dev/null"),
    essential="evaluation hits ngram-words least-words keys action output workers resume rejects",
    topics="records", next_command="build-vocab {output} --allow-fewer -o vocabulary")
@passes_records()
@click.option("--evaluation", multiple=True, required=True, type=input_file, metavar="FILE",
              help="Records that models are evaluated on; may be repeated.")
@writes_file("--hits", "Write the text that records share with evaluation records: both ids, the "
                       "first run of words and the share of the text.")
@takes_settings(ContaminationConfig, "config")
@takes_passes
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            evaluation: tuple[str, ...], hits: str | None, config: ContaminationConfig,
            passes: Passes) -> None:
    """Find records that contain evaluation texts, and leave them out.

    A record is contaminated if it shares a run of words with an evaluation text, ignoring case,
    white space and punctuation. Kept lines are copied unchanged.
    """
    from bmtools.corpus.duplicates.decontaminate import ContaminationFinder, EvaluationRuns
    from bmtools.io.parts import read_blocks

    known = RecordReader(evaluation)
    runs = EvaluationRuns.of(known, config)
    if runs.short:
        say(f"{runs.short:,} of {len(runs.names):,} evaluation texts have fewer than "
            f"{config.least_words} words and are ignored; lower --least-words to include them")
    settings = {**asdict(config), "evaluation": sorted(known.hashes.values())}
    with passes.opened(output, settings) as run, open_if_named(hits) as stream:
        finder = partial(ContaminationFinder, runs, config)
        write_lines(step, run.lines(read_blocks(records), finder, reject, stream), output)
    found, texts = run.counts.get("contaminated", 0), len(runs.names) - runs.short
    verb = "contains" if found == 1 else "contain"
    finish(step, f"{found:,} of {count_of(run.counts.get('all', 0), 'records')} {verb} "
           f"{contaminated_texts(run.counts):,} of {count_of(texts, 'evaluation texts')}"
           f"{to_output(output)}")
