"""`bmtools project`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click

from bmtools.cli.closing import after_project
from bmtools.cli.help import Choice
from bmtools.cli.options import (
    Command,
    allows_empty,
    input_file,
    reads_records,
    writes_file,
    writes_records,
)
from bmtools.cli.projection_options import PROJECTION_OPTIONS, takes_projection
from bmtools.cli.results import finish, write_stream
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.translation.projection.settings import Pairing, ProjectionConfig


@click.command("project", cls=Command, examples=(
    "bmtools project english.jsonl --translations italian.jsonl -o annotated.jsonl",
    "bmtools project english.jsonl --translations italian.jsonl --method align "
    "--min-confidence 0.8"),
    groups={"Projection": f"translations pairing {PROJECTION_OPTIONS} fit-confidence rejects"},
    topics="records", meanings={"output": "Write the records here; .gz and .zst compress."})
@reads_records
@allows_empty
@writes_records
@click.option("--translations", required=True, multiple=True, type=input_file, metavar="FILE",
              help="Translations of the records, under the same ids.")
@click.option("--pairing", type=Choice(get_args(Pairing)), default=ProjectionConfig.pairing,
              show_default=True, help="Pair records and translations by their ids or by their "
                                      "order.")
@takes_projection
@writes_file("--fit-confidence", "Take the annotations of the translations for gold, calibrate the "
             "confidence on them, and write that here instead of records.")
def command(records: RecordReader, reject: Reject, output: str, translations: tuple[str, ...],
            pairing: Pairing, projection: ProjectionConfig, fit_confidence: str | None) -> None:
    """Carry annotations from records to their translations.

    Entities, relations and answers of the records go to the translations that have the same ids.
    How many were projected, and how many were lost for which reason, is written to stderr.
    """
    config = replace(projection, pairing=pairing)
    reader = RecordReader(translations, reject, records.allow_empty)
    if fit_confidence:
        _fit(records, reader, config, reject, Path(fit_confidence))
        return
    from bmtools.translation.projection.project import project

    counts: Counter[str] = Counter()
    number = write_stream(project(records, reader, config, reject, counts), output, "projecting")
    finish(*after_project(number, counts, output))


def _fit(records: RecordReader, gold: RecordReader, config: ProjectionConfig, reject: Reject,
         path: Path) -> None:
    """Calibrate the confidence, and write the calibration."""
    from bmtools.io.output import new_file
    from bmtools.translation.projection.confidence import encode_calibration
    from bmtools.translation.projection.gold import calibrate

    calibration = calibrate(records, gold, config, reject)
    with new_file(path) as stream:
        stream.write(encode_calibration(calibration))
    error = "" if calibration.error is None else \
        f", expected calibration error {calibration.error:.4f} on sets left out"
    finish(f"calibrated on {calibration.spans:,} spans to {path}{error}")
