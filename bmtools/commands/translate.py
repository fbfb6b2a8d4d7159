"""`bmtools translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, existing_directory, reads_records, writes_records
from bmtools.cli.progress import tracked
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, write_records
from bmtools.translation.settings import (
    DEVICES,
    ENGINES,
    MISSING,
    OTHER_LANGUAGES,
    PRECISIONS,
    DocumentConfig,
    EngineConfig,
    ModelConfig,
)


@click.command("translate", cls=Command)
@reads_records
@writes_records
@click.option("--source", required=True, metavar="LANG", help="Language of the records (en).")
@click.option("--target", required=True, metavar="LANG", help="Language wanted (it).")
@click.option("--engine", required=True, type=click.Choice(ENGINES), help="What translates.")
@click.option("--missing", type=click.Choice(MISSING), default=DocumentConfig.missing,
              show_default=True, help="A sentence without translation: reject its record, keep "
                                      "the sentence as it is, or drop it.")
@click.option("--other-languages", type=click.Choice(OTHER_LANGUAGES), show_default=True,
              default=DocumentConfig.other_languages,
              help="A record whose lang is not --source: reject it, or keep it as it is.")
@click.option("--drop-annotations", is_flag=True,
              help="Remove entities, relations, answers and target instead of refusing them.")
@click.option("--memory", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="memory: TMX file, or TSV with a column for each language.")
@click.option("--via", metavar="LANG", help="apertium: language in between (ca).")
@click.option("--model", type=existing_directory, help="ctranslate2, transformers: the model.")
@click.option("--tokenizer", type=existing_directory,
              help="Its tokenizer, where the model's directory has none.")
@click.option("--source-code", help="The model's name of --source, where it is not found.")
@click.option("--target-code", help="The model's name of --target, where it is not found.")
@click.option("--beam-size", type=click.IntRange(min=1), default=ModelConfig.beam_size,
              show_default=True, help="Hypotheses kept by a model; 1 is fastest.")
@click.option("--batch-tokens", type=click.IntRange(min=1), default=ModelConfig.batch_tokens,
              show_default=True, help="Tokens of one batch, padding included.")
@click.option("--max-tokens", type=click.IntRange(min=2), show_default="the model's own",
              help="Longest sentence that a model is given.")
@click.option("--precision", type=click.Choice(PRECISIONS), default=ModelConfig.precision,
              show_default=True, help="Of the weights; default: as converted, or float32.")
@click.option("--device", type=click.Choice(DEVICES), default=ModelConfig.device,
              show_default=True, help="Where a model runs.")
def command(records: RecordReader, reject: Reject, output: str, **options: Any) -> None:
    """Translate records sentence by sentence."""
    from bmtools.translation.documents import TranslationCounts, translate_records
    from bmtools.translation.load import load_translator

    documents, engine = _settings(**options)
    translator = load_translator(engine)
    counts = TranslationCounts()
    translated = translate_records(records, translator, documents, reject, counts)
    write_records(tracked(translated, "translated"), output)
    for line in counts.told():
        click.echo(f"bmtools: {line}", err=True)


def _settings(source: str, target: str, engine: str, missing: str, other_languages: str,
              drop_annotations: bool, memory: Path | None, via: str | None, model: Path | None,
              **rest: Any) -> tuple[DocumentConfig, EngineConfig]:
    try:
        return (DocumentConfig(source, target, missing, other_languages, drop_annotations),
                EngineConfig(engine, source, target, memory, via,
                             ModelConfig(model, **rest) if model else None))
    except ValueError as error:
        raise click.UsageError(str(error)) from error

