"""`bmtools translate`."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import click

from bmtools.cli.options import (
    Command,
    passes_records,
    takes_abbreviations,
    usage_errors,
)
from bmtools.cli.parameters import WorkDirectory
from bmtools.cli.pass_options import end_if_finished, takes_part, takes_resume
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.translation_options import (
    takes_engine,
    takes_projection,
)
from bmtools.cli.writing import write_stream
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import is_regular
from bmtools.translation.settings import AuditConfig, DocumentConfig, RayConfig, TermConfig


@click.command("translate", cls=Command, examples=(
    "bmtools translate english.jsonl --source-lang en --target-lang it "
    "--engine memory --memory memory.tsv",
    "bmtools translate english.jsonl --source-lang en --target-lang it "
    "--engine memory --memory memory.tsv --missing keep -o italian.jsonl.zst"),
    essential="source-lang target-lang engine memory model command missing project output "
              "resume rejects",
    topics="records devices", next_command="build-vocab {output} --allow-fewer -o vocabulary")
@passes_records("the records")
@takes_engine(required=True)
@takes_values(DocumentConfig, without=(
    "source_lang", "target_lang", "project", "drop_annotations"))
@click.option("--drop-annotations", is_flag=True,
              help="Remove annotations instead of rejecting their records: target and predicted, "
                   "and without --project also entities, relations and answers.")
@takes_abbreviations
@click.option("--project", is_flag=True,
              help="After translation, transfer entities, relations and answers to the translated "
                   "text.")
@takes_projection(without=("glossary", "pairing"))
@click.option("--cache", type=WorkDirectory(), metavar="DIR",
              help="Keep sentences and their translations here, for this and other runs.")
@takes_resume
@takes_part("Translate")
@takes_values(AuditConfig, TermConfig, RayConfig)
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str, resume: bool,
            overwrite: bool, **options: Any) -> None:
    """Translate records sentence by sentence.

    Texts are split into sentences and joined again with the white space between them. Each
    different sentence is translated once. Counts of their sources are written to stderr.
    """
    from bmtools.io.passes import opened_run
    from bmtools.translation.counts import translation_lines
    from bmtools.translation.run import TranslationRun
    from bmtools.translation.translate import translate

    counts: Counter[str] = Counter()
    end_if_finished(step, output, resume, overwrite)
    run = TranslationRun(output, step) if is_regular(output) else None
    with opened_run(run, resume, overwrite) if run else nullcontext():
        with usage_errors():
            translated = translate(records, run=run, reject=reject, counts=counts, **options)
        if run:
            counts = run.counts
            run.write(translated)
        else:
            write_stream(step, translated, output)
    totals, *remarks = translation_lines(counts)
    for line in remarks:
        say(line)
    finish(step, f"translated {totals}{to_output(output)}")
