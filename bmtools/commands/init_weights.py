"""`bmtools init-weights`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from bmtools.commands.options import (
    Command,
    existing_directory,
    reads_records,
    writes_directory,
)
from bmtools.commands.progress import tracked
from bmtools.commands.settings import takes_settings
from bmtools.errors import DataError, Reject
from bmtools.io.aside import refuse_existing
from bmtools.io.manifest import Manifest
from bmtools.io.streams import RecordReader, write_records
from bmtools.models.settings import TransferSettings


@click.command("init-weights", cls=Command)
@reads_records
@writes_directory
@click.option("--base", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint whose weights are kept.")
@click.option("--tokenizer", type=existing_directory, required=True, metavar="DIR",
              help="The new vocabulary.")
@click.option("--lang", default="en", show_default=True,
              help="Language of records that do not say it; sentences are split by it.")
@takes_settings(TransferSettings, "settings")
def command(records: RecordReader, reject: Reject, output: Path, overwrite: bool, base: Path,
            tokenizer: Path, lang: str, settings: TransferSettings) -> None:
    """Give a checkpoint a new vocabulary and its tokens a head start.

    Only --method contextual reads records.
    """
    refuse_existing(output, overwrite)
    from bmtools.models.checkpoint import load_masked_lm, save_checkpoint
    from bmtools.models.transfer import transfer
    from bmtools.vocab.tokenizer import fingerprint, load_tokenizer

    started = time.monotonic()
    checkpoint, new = load_masked_lm(base), load_tokenizer(tokenizer)
    reading = _sentences(records, lang) if settings.method == "contextual" else iter(())
    made = transfer(checkpoint, new, settings, reading)
    manifest = Manifest(
        "init-weights", {**asdict(settings), "base": str(base), "tokenizer": str(tokenizer)},
        fingerprint(new), settings.seed, records.hashes, {"base": checkpoint.hash()},
        wall_seconds=time.monotonic() - started, results=made.report)
    save_checkpoint(output, made.model, new, manifest, overwrite)
    write_records([{"checkpoint": str(output), "method": settings.method, **made.report}])


def _sentences(records: RecordReader, lang: str) -> Iterator[str]:
    from bmtools.corpus.segment import sentence_spans

    empty = True
    for record in tracked(records, "sampling"):
        text = record["text"]
        for start, end in sentence_spans(text, record.get("lang", lang)):
            empty = False
            yield text[start:end]
    if empty:
        raise DataError("no sentences in the input; expected records with some text, or --method "
                        "average, which reads none")
