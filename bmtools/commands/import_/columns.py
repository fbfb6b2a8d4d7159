"""`bmtools import` of texts in columns: MIMIC's notes, Parquet files, datasets on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from bmtools.commands.import_.importing import imports_texts, source_format
from bmtools.errors import Reject
from bmtools.records import Record


@source_format("mimic", "NOTEEVENTS.csv, discharge.csv or radiology.csv of MIMIC", "kinds marks",
               "NOTEEVENTS.csv.gz --kinds Physician -o notes.jsonl",
               "NOTEEVENTS.csv.gz --kinds 'Discharge summary,Physician' --marks '[MARK]'")
@click.option("--kinds", default="", metavar="KIND,...",
              help="Take notes of these kinds alone: CATEGORY of MIMIC-III, note type of MIMIC-IV.")
@click.option("--marks", metavar="TEXT",
              help="Put this in place of marks of de-identification, [**...**] and ___.")
@imports_texts
def mimic(files: tuple[str, ...], kinds: str, marks: str | None, counts: Counter[str],
          reject: Reject) -> Iterator[Record]:
    """Notes of MIMIC-III or MIMIC-IV-Note, one record for each.

    Their columns are found by name. meta has kind, patient, admission and date; notes that are
    marked as errors are left out.
    """
    from bmtools.corpus.texts.mimic import mimic_records

    return mimic_records(files, list(filter(None, kinds.split(","))), marks, counts, reject)
