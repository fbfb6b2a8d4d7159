"""`bmtools project`."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bmtools.cli.options import Command, input_file, passes_records, usage_errors, writes_file
from bmtools.cli.results import finish, to_output
from bmtools.cli.step import CommandStep
from bmtools.cli.translation_options import (
    takes_engine,
    takes_projection,
)
from bmtools.cli.writing import FEWEST_DOCUMENTS, noting_documents, write_stream
from bmtools.errors import Reject, count_of, setting
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import write_records
from bmtools.records import JsonObject
from bmtools.translation.counts import count_lines
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.settings import EngineConfig, changed_settings

if TYPE_CHECKING:
    from bmtools.translation.projection.review import ReviewItem


@click.command("project", cls=Command, examples=(
    "bmtools project english.jsonl --translations italian.jsonl --min-confidence 0.8 "
    "--review review.jsonl --review-page review.html -o annotated.jsonl",
    "bmtools project english.jsonl --translations italian.jsonl --accept reviewed.jsonl "
    "-o annotated.jsonl"),
    essential="translations method engine min-confidence rejects review review-page "
              "accept output",
    topics="records devices", next_command="split {output} -o parts")
@passes_records("the records")
@click.option("--translations", required=True, multiple=True, type=input_file, metavar="FILE",
              help="Translations of the records, with the same ids.")
@takes_projection()
@writes_file("--review", "Write spans not found, or below the minimum confidence, to this file.")
@writes_file("--review-page", "Write a page (HTML) on which a person corrects these spans.")
@click.option("--accept", multiple=True, type=input_file, metavar="FILE",
              help="Spans with decisions, as the page saves them. They override the methods' "
                   "spans.")
@takes_engine(required=False)
@writes_file("--fit-confidence", "Use the annotations of the translations as gold, and write a "
             "calibration of the confidence to this file instead of records.")
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            translations: tuple[str, ...], fit_confidence: str | None, review: str | None,
            review_page: str | None, accept: tuple[str, ...], **options: Any) -> None:
    """Transfer annotations from records to their translations.

    Entities, relations and answers of the records are added to the translations with the same ids.
    The numbers of projected annotations, and of lost ones by cause, are written to stderr. With an
    engine, methods exact and dictionary also search for translations of the annotated phrases.
    """
    with usage_errors():
        engine = _engine({name: options.pop(name) for name in [
            field.name for field in fields(EngineConfig)]})
        config = ProjectionConfig(**options)
        config.require_resources(engine)
    reader = RecordReader(translations, reject, records.allow_empty)
    if fit_confidence:
        _fit(step, records, reader, config, engine, reject, Path(fit_confidence))
        return
    from bmtools.translation.projection.project import project
    from bmtools.translation.projection.review import Decisions

    counts: Counter[str] = Counter()
    documents: set[str] = set()
    items: list[ReviewItem] = []
    with usage_errors():
        projected = project(records, reader, config, engine, reject, counts,
                            Decisions.read(accept) if accept else None,
                            items.append if review or review_page else None)
        number = write_stream(step, noting_documents(projected, documents), output, "projecting")
    if review:
        write_records(items, review)
    if review_page:
        from bmtools.study.reports.pages import write_review_page

        write_review_page(items, Path(review_page))
    counts["annotations to review"] += len(items)
    facts = [count_of(number, "records") + to_output(output), *count_lines(counts)]
    finish(step, "; ".join(facts), leads_on=len(documents) >= FEWEST_DOCUMENTS)


def _engine(options: JsonObject) -> EngineConfig | None:
    """Collect the settings of the engine; None if no engine is named."""
    if not options["engine"]:
        if idle := changed_settings(EngineConfig, options):
            raise ValueError(f"{setting(idle[0])} requires {setting('engine')}")
        return None
    missing = [name for name in ("source_lang", "target_lang") if not options[name]]
    if missing:
        raise ValueError(f"{setting('engine')} needs {' and '.join(map(setting, missing))}")
    return EngineConfig(**options)


def _fit(step: CommandStep, records: RecordReader, gold: RecordReader, config: ProjectionConfig,
         engine: EngineConfig | None, reject: Reject, path: Path) -> None:
    """Calibrate the confidence, and write the calibration."""
    import msgspec

    from bmtools.io.output import new_file
    from bmtools.translation.projection.gold import calibrate

    calibration = calibrate(records, gold, config, engine, reject)
    with new_file(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
    error = "" if calibration.error is None else \
        (f"; expected calibration error within sentences at most {calibration.error:.4f} on a set "
         "that was left out")
    finish(step, f"calibrated on {count_of(calibration.spans, 'spans')} to {path}{error}")
