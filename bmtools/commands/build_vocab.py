"""`bmtools build-vocab`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from bmtools.commands.options import Command, reads_records, writes_directory
from bmtools.commands.progress import tracked
from bmtools.commands.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.aside import new_directory, refuse_existing
from bmtools.io.manifest import Manifest
from bmtools.io.streams import RecordReader, write_records
from bmtools.vocab.settings import WordPieceSettings


@click.command("build-vocab", cls=Command)
@reads_records
@writes_directory
@takes_settings(WordPieceSettings, "settings")
def command(records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            settings: WordPieceSettings) -> None:
    """Learn a WordPiece vocabulary and write a tokenizer directory."""
    refuse_existing(output, overwrite)
    from bmtools.vocab.tokenizer import fingerprint, save_tokenizer
    from bmtools.vocab.wordpiece import learn

    started = time.monotonic()
    tokenizer = learn(_texts(records), settings)
    found = {"tokens": len(tokenizer), "asked": settings.size}
    manifest = Manifest(
        "build-vocab", asdict(settings), fingerprint(tokenizer), inputs=records.hashes,
        wall_seconds=time.monotonic() - started, results=found)
    with new_directory(output, overwrite) as partial:
        save_tokenizer(tokenizer, partial)
        manifest.write(partial)
    write_records([{"tokenizer": str(output), **found, "vocabulary": manifest.vocabulary}])


def _texts(records: RecordReader) -> Iterator[str]:
    for record in tracked(records, "reading"):
        if record.get("title"):
            yield record["title"]
        yield record["text"]
