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
    existing_directory,
    reads_records,
    takes_abbreviations,
    takes_overwrite,
    usage_errors,
    writes_records,
)
from bmtools.cli.results import finish, write_stream
from bmtools.cli.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import STDOUT, descriptor_of, is_special
from bmtools.io.record_shard import Shard
from bmtools.translation.settings import (
    AuditConfig,
    ComputeType,
    Device,
    DocumentConfig,
    Engine,
    Missing,
    ModelConfig,
    OtherLanguages,
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
    essential="source-lang target-lang engine memory via model missing output resume device "
              "rejects",
    groups={"Languages": "source-lang target-lang source-code target-code abbreviations",
            "Engine": "engine memory via model tokenizer",
            "Sentences without translation": "missing other-languages drop-annotations rejects",
            "Long runs": "cache resume shard",
            "Generation by a model": "beam-size batch-tokens max-length compute-type device"},
    topics="records devices",
    meanings={"output": "Write the records here; .gz and .zst compress."})
@reads_records
@allows_empty
@writes_records
@click.option("--source-lang", required=True, metavar="LANG", help="Language of the records (en).")
@click.option("--target-lang", required=True, metavar="LANG",
              help="Language to translate into (it).")
@click.option("--engine", required=True, type=Choice(get_args(Engine)),
              help="Engine that translates.")
@click.option("--missing", type=Choice(get_args(Missing)),
              default=DocumentConfig.missing, show_default=True,
              help="A sentence without translation: reject its record, keep the sentence as it "
                   "is, or drop it.")
@click.option("--other-languages", type=Choice(get_args(OtherLanguages)),
              default=DocumentConfig.other_languages, show_default=True,
              help="A record whose lang is not --source-lang: reject it, or keep it as it is.")
@click.option("--drop-annotations", is_flag=True,
              help="Remove entities, relations, answers, target and predicted, instead of refusing "
                   "them.")
@takes_abbreviations
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Keep sentences and their translations here, for this and other runs.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run, if there is one.")
@click.option("--shard", type=ShardParam(), metavar="I/N",
              help="Translate this part of the files alone, of N contiguous ones: 2/8.")
@takes_overwrite
@click.option("--memory", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Translation memory, for engine memory: a TMX file, or a TSV with a column for "
                   "each language.")
@click.option("--via", metavar="LANG", help="Language in between, such as ca, for engine apertium.")
@click.option("--model", type=existing_directory, metavar="DIR",
              help="Model, for engines ctranslate2 and transformers.")
@click.option("--tokenizer", type=existing_directory,
              metavar="DIR",
              help="Tokenizer of the model, where its directory has none.")
@click.option("--source-code", metavar="CODE",
              help="The model's name of --source-lang, where it is not found.")
@click.option("--target-code", metavar="CODE",
              help="The model's name of --target-lang, where it is not found.")
@click.option("--beam-size", type=click.IntRange(min=1), default=ModelConfig.beam_size,
              show_default=True, help="Hypotheses kept by a model; 1 is fastest.")
@click.option("--batch-tokens", type=click.IntRange(min=1), default=ModelConfig.batch_tokens,
              show_default=True, help="Tokens of one batch, padding included.")
@click.option("--max-length", type=click.IntRange(min=2), show_default="the model's own",
              help="Tokens of the longest sentence that a model accepts.")
@click.option("--compute-type", type=Choice(get_args(ComputeType)),
              default=ModelConfig.compute_type, show_default=True,
              help="Data type of the weights; default is that of a converted model, else float32.")
@click.option("--device", type=Choice(get_args(Device)), default=ModelConfig.device,
              show_default=True, help="Device of a model.")
@takes_settings(AuditConfig, "audit")
def command(records: RecordReader, reject: Reject, output: str, model: Path | None,
            tokenizer: Path | None, source_code: str | None, target_code: str | None,
            beam_size: int, batch_tokens: int, max_length: int | None, compute_type: ComputeType,
            device: Device, resume: bool, overwrite: bool, **options: Any) -> None:
    """Translate records sentence by sentence.

    Texts are split into sentences, and put together again around what was between them. Each
    different sentence is translated once. How many came from where is written to stderr.
    """
    from bmtools.translation.documents import TranslationCounts
    from bmtools.translation.run import opened_run, run_directory
    from bmtools.translation.translate import translate

    counts = TranslationCounts()
    neural = ModelConfig(model, tokenizer, source_code, target_code, beam_size, batch_tokens,
                         max_length, compute_type, device) if model else None
    is_file = output != STDOUT and descriptor_of(output) is None and not is_special(output)
    if resume and not is_file:
        raise click.UsageError("--resume: found no file to go on with, expected --output FILE")
    if resume and not overwrite and Path(output).exists() and not run_directory(output).exists():
        return finish(f"{output} is there already, and stays as it is")
    with opened_run(output, resume, overwrite) if is_file else nullcontext() as run:
        with usage_errors():
            translated = translate(records, model=neural, run=run, reject=reject, counts=counts,
                                   **options)
        if run:
            counts = run.counts
            run.write(translated)
        else:
            write_stream(translated, output)
    totals, *remarks = counts.lines()
    for line in remarks:
        click.echo(f"bmtools: {line}", err=True)
    finish(*after_translate(totals, output))
