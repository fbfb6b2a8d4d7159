"""`bmtools build-vocab`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bmtools.cli.options import (
    Command,
    Function,
    reads_records,
    tokenizer_directory,
    writes_directory,
)
from bmtools.cli.results import Closing, Line, command_line, finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.errors import CheckpointError, Reject, count_of, setting
from bmtools.io.jsonl import RecordReader
from bmtools.status import counted
from bmtools.vocab.settings import AUTO, SizeSearchConfig, VocabularyConfig

_WITH_EXTEND = {"size", "tokenizer_type", "min_frequency", "max_alphabet", "allow_fewer",
                "sample_megabytes", "seed"}


class _Size(click.ParamType):
    """A whole number, or `auto`."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        return AUTO if value == "auto" else click.INT.convert(value, param, ctx)


def _or_auto(function: Function) -> Function:
    """Let `--size` be `auto` too."""
    for option in function.__click_params__:  # type: ignore[attr-defined]
        if option.name == "size":
            option.type, option.metavar = _Size(), "N|auto"
    return function


@click.command("build-vocab", cls=Command, examples=(
    "bmtools build-vocab corpus.jsonl --size 8000 --allow-fewer -o words",
    "bmtools build-vocab corpus.jsonl --extend model --size 8000 --allow-fewer -o more"),
    essential="output overwrite size extend tokenizer-type special-tokens uncased allow-fewer "
              "terms",
    groups={"Vocabulary": "size extend tokenizer-type special-tokens allow-fewer min-frequency "
                          "max-alphabet",
            "Normalization of text": "uncased strip-accents unicode split-digits spell-greek",
            "Text to train on": "sample-megabytes seed",
            "Choice of a size (--size auto)": "terms candidates held-out-ratio hidden-size"},
    meanings={"output": "Directory for the tokenizer."})
@reads_records
@writes_directory
@click.option("--extend", type=tokenizer_directory, metavar="CKPT",
              help="Keep every token and id of this tokenizer or checkpoint, and add the best "
                   "new pieces up to --size.")
@_or_auto
@takes_settings(VocabularyConfig, "config")
@takes_settings(SizeSearchConfig, "size_search")
@prints_results
def command(step: CommandStep, records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            extend: Path | None, config: VocabularyConfig, size_search: SizeSearchConfig) -> None:
    """Train a tokenizer, or extend one, and write its directory.

    The same text gives the same vocabulary, whatever the number of cores. Prints one line about
    the vocabulary.
    """
    given = _given(VocabularyConfig)
    _check_usage(extend, config, given)
    from bmtools.vocab.build_vocab import build_vocab

    if extend is not None and "tokenizer_type" in given:
        from bmtools.vocab.extension import tokenizer_type_of
        from bmtools.vocab.loading import load_backend

        found = tokenizer_type_of(load_backend(extend), str(extend))
        if found != config.tokenizer_type:
            raise CheckpointError(f"{extend}: found a {found} tokenizer, expected "
                                  f"{config.tokenizer_type}; leave --tokenizer-type out to extend "
                                  "it as it is")
    built = build_vocab(records, config, output, extend=extend, size_search=size_search,
                        overwrite=overwrite, progress=partial(counted, activity="reading"),
                        step=step)
    [line] = print_results(step, [
        {"tokenizer": str(output), **built.results, "vocabulary": built.fingerprint}])
    finish(step, *closing(line, extend is not None))


def _check_usage(extend: Path | None, config: VocabularyConfig, given: set[str]) -> None:
    """Refuse options that would have no effect."""
    if extend is not None:
        if unused := sorted(given - _WITH_EXTEND):
            raise click.UsageError(f"found {_flags(unused)} with --extend, which keeps what the "
                                   "old tokenizer does; leave it out")
        if config.size == AUTO:
            raise click.UsageError("found --size auto with --extend, expected a number")
    elif config.tokenizer_type == "bpe" and "max_alphabet" in given:
        raise click.UsageError("found max_alphabet with --tokenizer-type bpe, which spells all "
                               "characters by their bytes; leave it out")
    if config.size != AUTO and (unused := sorted(_given(SizeSearchConfig))):
        raise click.UsageError(f"found {_flags(unused)} without --size auto, expected both or "
                               "neither")


def _given(kind: type) -> set[str]:
    """Return the fields whose options the user gave."""
    context = click.get_current_context()
    return {field.name for field in fields(kind)
            if context.get_parameter_source(field.name) is not ParameterSource.DEFAULT}


def _flags(names: Iterable[str]) -> str:
    return " and ".join(map(setting, names))


def closing(line: Line, extends: bool = False) -> Closing:
    """Close `build-vocab`."""
    directory = line["tokenizer"]
    what = f"wrote {directory}: {line['vocab_size']:,} {line['tokenizer_type']} tokens"
    if "sample" in line:
        what += f" from {count_of(line['sample']['documents'], 'documents')}"
    return what, command_line("init-weights FILE --base CKPT --tokenizer {} -o initialised"
                              if extends else
                              "pretrain FILE --architecture bert-small --tokenizer {} -o model",
                              directory)
