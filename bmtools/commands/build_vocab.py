"""`bmtools build-vocab`."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from bmtools.cli.options import Command, reads_records, tokenizer_directory, writes_directory
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject, count_of, setting
from bmtools.io.jsonl import RecordReader
from bmtools.status import counted
from bmtools.vocab.settings import VocabularyConfig

_WITH_EXTEND = {"size", "min_frequency", "max_alphabet", "allow_fewer",
                "sample_megabytes", "seed"}


@click.command("build-vocab", cls=Command, examples=(
    "bmtools build-vocab corpus.jsonl --size 8000 --allow-fewer -o words",
    "bmtools build-vocab corpus.jsonl --extend model --size 8000 --allow-fewer -o more"),
    next_command="pretrain FILE --architecture bert-small --tokenizer {output} -o model",
    essential="output overwrite size extend tokenizer-type special-tokens uncased allow-fewer",
    meanings={"output": "Directory for the tokenizer."})
@reads_records
@writes_directory
@click.option("--extend", type=tokenizer_directory, metavar="CKPT",
              help="Keep every token and id of this tokenizer or checkpoint, and add the best "
                   "new pieces up to --size.")
@takes_settings(VocabularyConfig, "config")
@prints_results
def command(step: CommandStep, records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            extend: Path | None, config: VocabularyConfig) -> None:
    """Train or extend a tokenizer, and write its directory.

    The same text produces the same vocabulary, whatever the number of cores. Prints one line
    about the vocabulary.
    """
    if extend is not None and (unused := [
            setting(field.name) for field in fields(VocabularyConfig)
            if field.name not in _WITH_EXTEND
            and step.context.get_parameter_source(field.name) is not ParameterSource.DEFAULT]):
        raise click.UsageError(f"found {' and '.join(unused)} with --extend, which keeps the "
                               "old tokenizer's setting; remove it")
    from bmtools.vocab.build_vocab import build_vocab

    built = build_vocab(records, config, output, extend=extend, overwrite=overwrite,
                        progress=partial(counted, activity="reading"), step=step)
    [line] = print_results(step, [
        {"tokenizer": str(output), **built.results, "vocabulary": built.fingerprint}])
    what = f"wrote {output}: {line['vocab_size']:,} {line['tokenizer_type']} tokens"
    if "sample" in line:
        what += f" from {count_of(line['sample']['documents'], 'documents')}"
    finish(step, what, leads_on=extend is None)
