"""`bmtools translate`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import click

from bmtools.cli.closing import after_translate
from bmtools.cli.help import Choice
from bmtools.cli.options import (
    Command,
    allows_empty,
    reads_records,
    takes_abbreviations,
    takes_overwrite,
    usage_errors,
    writes_records,
)
from bmtools.cli.projection_options import (
    PROJECTION_OPTIONS,
    refuse_projection_options,
    takes_projection,
)
from bmtools.cli.results import finish, write_stream
from bmtools.cli.settings import takes_settings
from bmtools.cli.translation_options import ENGINE_GROUPS, takes_engine
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import STDOUT, descriptor_of, is_special
from bmtools.io.record_shard import Shard
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.settings import (
    AuditConfig,
    DocumentConfig,
    Missing,
    OtherLanguages,
    ProtectionConfig,
    RayConfig,
)


class ShardParam(click.ParamType):
    """A part and how many there are, such as 2/8."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Shard:
        """Read it."""
        try:
            return value if isinstance(value, Shard) else Shard.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("translate", cls=Command, examples=(
    "bmtools translate english.jsonl --source-lang en --target-lang it "
    "--engine memory --memory memory.tsv",
    "bmtools translate english.jsonl --source-lang en --target-lang it "
    "--engine memory --memory memory.tsv --missing keep -o italian.jsonl.zst"),
    essential="source-lang target-lang engine memory model command missing project output "
              "resume rejects",
    groups={"Languages": "source-lang target-lang source-code target-code abbreviations",
            **ENGINE_GROUPS,
            "Sentences without translation": "missing other-languages drop-annotations rejects",
            "Annotations": f"project translate-mentions {PROJECTION_OPTIONS}",
            "Long runs": "cache resume shard ray ray-cores"},
    topics="records devices",
    meanings={"output": "Write the records here; .gz and .zst compress."})
@reads_records
@allows_empty
@writes_records
@click.option("--source-lang", required=True, metavar="LANG", help="Language of the records (en).")
@click.option("--target-lang", required=True, metavar="LANG",
              help="Language to translate into (it).")
@takes_engine()
@click.option("--missing", type=Choice(get_args(Missing)),
              default=DocumentConfig.missing, show_default=True,
              help="A sentence without translation: reject its record, keep the sentence as it "
                   "is, or drop it.")
@click.option("--other-languages", type=Choice(get_args(OtherLanguages)),
              default=DocumentConfig.other_languages, show_default=True,
              help="A record whose lang is not --source-lang: reject it, or keep it as it is.")
@click.option("--drop-annotations", is_flag=True,
              help="Remove target and predicted, and without --project entities, relations and "
                   "answers, instead of refusing them.")
@takes_abbreviations
@click.option("--project", is_flag=True,
              help="Carry entities, relations and answers to the translation, once all is "
                   "translated.")
@click.option("--translate-mentions", is_flag=True,
              help="Translate annotated words by themselves, too, for method exact to look for.")
@takes_projection(without=("glossary",))
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Keep sentences and their translations here, for this and other runs.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run, if there is one.")
@click.option("--shard", type=ShardParam(), metavar="I/N",
              help="Translate this part of the files alone, of N contiguous ones: 2/8.")
@takes_overwrite
@takes_settings(AuditConfig, "audit")
@takes_settings(ProtectionConfig, "protection")
@takes_settings(RayConfig, "cluster")
def command(records: RecordReader, reject: Reject, output: str, resume: bool, overwrite: bool,
            project: bool, projection: ProjectionConfig, **options: Any) -> None:
    """Translate records sentence by sentence.

    Texts are split into sentences, and put together again around what was between them. Each
    different sentence is translated once. How many came from where is written to stderr.
    """
    from bmtools.translation.counts import TranslationCounts
    from bmtools.translation.run import opened_run, run_directory
    from bmtools.translation.translate import translate

    if not project:
        refuse_projection_options(click.get_current_context())
    counts = TranslationCounts()
    is_file = output != STDOUT and descriptor_of(output) is None and not is_special(output)
    if resume and not is_file:
        raise click.UsageError("--resume: found no file to go on with, expected --output FILE")
    if resume and not overwrite and Path(output).exists() and not run_directory(output).exists():
        return finish(f"{output} is there already, and stays as it is")
    with opened_run(output, resume, overwrite) if is_file else nullcontext() as run:
        with usage_errors():
            translated = translate(records, run=run, reject=reject, counts=counts,
                                   projection=projection if project else None, **options)
        if run:
            counts = run.counts
            run.write(translated)
        else:
            write_stream(translated, output)
    totals, *remarks = counts.lines()
    for line in remarks:
        click.echo(f"bmtools: {line}", err=True)
    finish(*after_translate(totals, output))
