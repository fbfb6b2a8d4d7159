"""`bmtools build-vocab`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bmtools.cli.options import Command, existing_directory, reads_records, writes_directory
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.errors import CheckpointError, Reject
from bmtools.io.atomic import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, read_list, write_records
from bmtools.io.manifest import Manifest, hash_directory
from bmtools.vocab.settings import AUTO, SizeSearchConfig, VocabularyConfig

_WITH_EXTEND = {"size", "kind", "min_frequency", "max_alphabet", "at_most", "sample_megabytes",
                "seed"}


class _Size(click.ParamType):
    """A whole number, or `auto`."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        return AUTO if value == "auto" else click.INT.convert(value, param, ctx)


def _or_auto(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let `--size` be `auto` too."""
    for option in function.__click_params__:  # type: ignore[attr-defined]
        if option.name == "size":
            option.type = _Size()
    return function


@click.command("build-vocab", cls=Command)
@reads_records
@writes_directory
@click.option("--extend", "old", type=existing_directory, metavar="CKPT",
              help="Keep every token and id of this tokenizer or checkpoint, and add the best "
                   "new pieces up to --size.")
@_or_auto
@takes_settings(VocabularyConfig, "settings")
@takes_settings(SizeSearchConfig, "choosing")
def command(records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            old: Path | None, settings: VocabularyConfig, choosing: SizeSearchConfig) -> None:
    """Learn a vocabulary, or extend one, and write a tokenizer directory."""
    _check_usage(old, settings)
    refuse_existing(output, overwrite)
    from bmtools.vocab.build import build
    from bmtools.vocab.tokenizer import fingerprint, save_tokenizer

    started = time.monotonic()
    terms = [term for _, term in read_list(choosing.terms)] if choosing.terms else []
    built = build(_documents(records), settings, choosing, terms, _load_old(old, settings),
                  str(old))
    manifest = Manifest(
        "build-vocab", {**asdict(settings), **asdict(choosing), "extend": old and str(old)},
        fingerprint(built.tokenizer), seed=settings.seed, inputs=records.hashes,
        parents={} if old is None else {"extended": hash_directory(old)},
        wall_seconds=time.monotonic() - started, results=built.results)
    with new_directory(output, overwrite) as partial:
        save_tokenizer(built.tokenizer, partial)
        manifest.write(partial)
    write_records([{"tokenizer": str(output), **built.results,
                    "vocabulary": manifest.vocabulary}])


def _documents(records: RecordReader) -> Iterator[str]:
    for record in tracked(records, "reading"):
        yield f"{record['title']}\n{record['text']}" if record.get("title") else record["text"]


def _check_usage(old: Path | None, settings: VocabularyConfig) -> None:
    """Refuse options that would have no effect."""
    given = _given(VocabularyConfig)
    if old is not None:
        if idle := sorted(given - _WITH_EXTEND):
            raise click.UsageError(f"found {_flags(idle)} with --extend, which keeps what the old "
                                   "tokenizer does; leave it out")
        if settings.size == AUTO:
            raise click.UsageError("found --size auto with --extend, expected a number")
    elif settings.kind == "bpe" and "max_alphabet" in given:
        raise click.UsageError("found --max-alphabet with --kind bpe, which spells all characters "
                               "by their bytes; leave it out")
    if settings.size != AUTO and (idle := sorted(_given(SizeSearchConfig))):
        raise click.UsageError(f"found {_flags(idle)} without --size auto, expected both or "
                               "neither")


def _given(kind: type) -> set[str]:
    """Name the fields whose options the user gave."""
    context = click.get_current_context()
    return {field.name for field in fields(kind)
            if context.get_parameter_source(field.name) is not ParameterSource.DEFAULT}


def _flags(names: Sequence[str]) -> str:
    return " and ".join("--" + name.replace("_", "-") for name in names)


def _load_old(old: Path | None, settings: VocabularyConfig) -> Any:
    """Load the tokenizer to extend, and make sure of its kind where one is asked for."""
    if old is None:
        return None
    from bmtools.vocab.extension import kind_of
    from bmtools.vocab.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(old)
    kind = kind_of(tokenizer, str(old))
    if "kind" in _given(VocabularyConfig) and kind != settings.kind:
        raise CheckpointError(f"{old}: found a {kind} tokenizer, expected {settings.kind}; "
                              f"leave --kind out to extend it as it is")
    return tokenizer
