"""`bmtools predict`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from bmtools.cli.options import Command, existing_directory, reads_records, writes_records
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.jsonl import write_records as write
from bmtools.records import Record
from bmtools.tasks.settings import PredictConfig

_REPLACED = ("entities", "relations")


@click.command("predict", cls=Command)
@reads_records
@writes_records
@click.option("--model", type=existing_directory, required=True, metavar="DIR",
              help="Fine-tuned model.")
@takes_settings(PredictConfig, "settings")
def command(records: RecordReader, reject: Reject, output: str, model: Path,
            settings: PredictConfig) -> None:
    """Add a fine-tuned model's predictions to records."""
    from bmtools.tasks.tagging import load_tagger, predict

    tagger = load_tagger(model, settings)
    replaced: Counter[str] = Counter()
    predicted = predict(_counted(records, replaced), tagger, settings)
    write(tracked(predicted, "predicting"), output)
    for name, count in replaced.items():
        what = "replaced" if name == "entities" else "dropped, as their entities went"
        click.echo(f"bmtools: {count} {name} of the input {what}", err=True)


def _counted(records: Iterable[Record], counts: Counter[str]) -> Iterator[Record]:
    """Pass records on and count what predictions will take the place of."""
    for record in records:
        for name in _REPLACED:
            if record.get(name):
                counts[name] += len(record[name])
        yield record
