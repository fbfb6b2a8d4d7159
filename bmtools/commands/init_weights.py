"""`bmtools init-weights`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bmtools.cli.options import (
    Command,
    directory,
    existing_directory,
    reads_records,
)
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.cli.tables import print_table
from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.atomic import refuse_existing
from bmtools.io.jsonl import RecordReader, read_records, write_records
from bmtools.io.manifest import Manifest
from bmtools.models.settings import (
    READING,
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.records import Record, span_faults

if TYPE_CHECKING:
    from bmtools.models.context_embeddings import Sentence

_COLUMNS = ("start.loss", "start.new_loss", "start.old_loss", "probe.loss", "probe.new_loss",
            "probe.old_loss", "seconds")
_NEAREST = 3


@click.command("init-weights", cls=Command)
@reads_records
@click.option("-o", "--output", type=directory, metavar="DIR",
              help="Directory to write; required without --compare.")
@click.option("--overwrite", is_flag=True, help="Replace the directory's content.")
@click.option("--base", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint whose weights are kept.")
@click.option("--tokenizer", type=existing_directory, required=True, metavar="DIR",
              help="The new vocabulary.")
@click.option("--lang", default="en", show_default=True,
              help="Language of records that do not say it; sentences are split by it.")
@takes_settings(TransferConfig, "settings")
@takes_settings(FocusConfig, "focus")
@takes_settings(TokenDistillationConfig, "distil")
@takes_settings(CompareConfig, "compare")
@click.option("--held-out", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="Records that --compare asks about; without it, a share of the input.")
def command(records: RecordReader, reject: Reject, output: Path | None, overwrite: bool,
            base: Path, tokenizer: Path, lang: str, settings: TransferConfig,
            focus: FocusConfig, distil: TokenDistillationConfig, compare: CompareConfig,
            held_out: str | None) -> None:
    """Give a checkpoint a new vocabulary and its tokens a head start.

    Methods random and average read no records. Records with the key "targets", as "bmtools
    find-contexts" writes them, are sentences already, and say which words of them to use.

    --compare tries methods and writes no checkpoint: a JSON line each tells the loss on held-out
    text at step 0 and after a short trial of pretraining, and which old tokens new ones lie next
    to.
    """
    if compare.methods():
        if output is not None:
            raise click.UsageError("found both --compare, which writes no checkpoint, and -o; "
                                   "compare first, then write with --method")
        _compare(records, reject, base, tokenizer, lang, settings, focus, distil, compare,
                 held_out)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    refuse_existing(output, overwrite)
    from bmtools.models.checkpoint import load_masked_lm, save_checkpoint
    from bmtools.models.transfer import transfer
    from bmtools.vocab.tokenizer import fingerprint, load_tokenizer

    started = time.monotonic()
    checkpoint, new = load_masked_lm(base), load_tokenizer(tokenizer)
    reading: Iterable[Sentence] = ()
    if settings.method in READING:
        reading = _sentences(_checked(tracked(records, "sampling"), reject), lang)
    made = transfer(checkpoint, new, settings, reading, focus, distil)
    manifest = Manifest(
        "init-weights", {**asdict(settings), **_settings_of(settings.method, focus, distil),
                         "base": str(base), "tokenizer": str(tokenizer)},
        fingerprint(new), settings.seed, records.hashes, {"base": checkpoint.hash()},
        wall_seconds=time.monotonic() - started, results=made.report)
    save_checkpoint(output, made.model, new, manifest, overwrite)
    write_records([{"checkpoint": str(output), "method": settings.method, **made.report}])


def _settings_of(method: str, focus: FocusConfig, distil: TokenDistillationConfig) -> dict[str,
                                                                                           Any]:
    """Settings that a method has beside those of all."""
    if method == "focus":
        return asdict(focus)
    return asdict(distil) if method == "distil" else {}


def _compare(records: RecordReader, reject: Reject, base: Path, tokenizer: Path, lang: str,
             settings: TransferConfig, focus: FocusConfig, distil: TokenDistillationConfig,
             compare: CompareConfig, held_out: str | None) -> None:
    from bmtools.models.checkpoint import load_masked_lm
    from bmtools.training.init_comparison import InitComparison, compare_inits
    from bmtools.vocab.tokenizer import load_tokenizer

    comparison = InitComparison(load_masked_lm(base), load_tokenizer(tokenizer), compare, settings,
                             focus,
                             distil, partial(_sentences, lang=lang))
    held = read_records(held_out, reject=reject) if held_out else None
    lines: list[dict[str, Any]] = []
    for line in compare_inits(comparison, _checked(tracked(records, "reading"), reject), held):
        write_records([line], flush=True)
        lines.append(line)
    _show(lines)


def _show(lines: Sequence[Mapping[str, Any]]) -> None:
    """Lay losses and neighbours out for people."""
    from bmtools.scoring.table import gather_rows, get_nested

    columns = tuple(name for name in _COLUMNS if any(get_nested(line, name) is not None
                                                     for line in lines))
    print_table(("method", *columns), gather_rows(lines, "method", columns),
                "Nats per hidden token of held-out text", stream=sys.stderr)
    methods = [line["method"] for line in lines]
    near = ((told[0]["token"], *(" ".join(one["neighbours"][:_NEAREST]) for one in told))
            for told in zip(*(line["neighbours"] for line in lines), strict=True))
    print_table(("new token", *methods), near, "Nearest old tokens", text_columns=1 + len(methods),
                stream=sys.stderr)


def _sentences(records: Iterable[Record], lang: str) -> Iterator[Sentence]:
    """Cut records into sentences; those with targets are sentences."""
    from bmtools.corpus.segment import sentence_spans
    from bmtools.models.context_embeddings import Sentence

    empty = True
    for record in records:
        text, targets = record["text"], record.get("targets")
        spans = sentence_spans(text, record.get("lang", lang)) if targets is None else \
            [(0, len(text))]
        named = tuple((one["word"], one["start"], one["end"]) for one in targets or ())
        for start, end in spans:
            empty = False
            yield Sentence(text[start:end], named)
    if empty:
        raise DataError("no sentences in the input; expected records with some text, or --method "
                        "average, which reads none")


def _checked(records: Iterable[Record], reject: Reject) -> Iterator[Record]:
    """Pass records on whose targets can be used."""
    for record in records:
        fault = _target_fault(record) if "targets" in record else ""
        if fault:
            reject(RecordError(record.place, fault, record))
        else:
            yield record


def _target_fault(record: Record) -> str:
    """Say what is wrong with the targets of a record, if anything."""
    targets = record["targets"]
    if not isinstance(targets, list):
        return f"key 'targets': found {type(targets).__name__}, expected a list"
    for number, one in enumerate(targets):
        if not isinstance(one, dict) or not isinstance(one.get("word"), str) \
                or not all(type(one.get(name)) is int for name in ("start", "end")):
            return (f"key 'targets[{number}]': found {str(one)[:60]}, expected an object with "
                    "word, start and end")
        for fault in span_faults(record["text"], {"start": one["start"], "end": one["end"]},
                                 f"targets[{number}]"):
            return fault
    return ""
