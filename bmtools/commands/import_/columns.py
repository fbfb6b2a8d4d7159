"""`bmtools import` of texts in columns: MIMIC's notes, Parquet files, datasets on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import click

from bmtools.cli.options import takes_sets
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
    from bmtools.corpus.formats.texts.mimic import mimic_records

    return mimic_records(files, list(filter(None, kinds.split(","))), marks, counts, reject)


takes_id_key = click.option("--id-key", default="id", show_default=True, metavar="KEY",
                            help="Column of the id.")
takes_text_key = click.option("--text-key", default="text", show_default=True, metavar="KEY",
                              help="Column of the text.")


@source_format("parquet", "Parquet", "id-key text-key", "notes.parquet -o notes.jsonl",
               "notes.parquet --id-key number --text-key note", archives=True)
@takes_id_key
@takes_text_key
@partial(imports_texts, takes=takes_sets)
def parquet(files: tuple[str, ...], id_key: str, text_key: str, counts: Counter[str],
            reject: Reject) -> Iterator[Record]:
    """Rows of Parquet files, one record for each.

    Columns are taken as import jsonl takes keys; those of bytes, as images, are left out.
    """
    from bmtools.corpus.formats.texts.arrow import parquet_records

    return parquet_records(files, id_key, text_key, counts, reject)


@source_format("dataset", "Folders that datasets' save_to_disk wrote, or of Parquet files",
               "splits id-key text-key", "saved -o texts.jsonl",
               "saved --splits train,validation --text-key note")
@click.option("--splits", default="", metavar="NAME,...", help="Take these splits alone.")
@takes_id_key
@takes_text_key
@partial(imports_texts, takes=takes_sets)
def dataset(files: tuple[str, ...], splits: str, id_key: str, text_key: str,
            counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Rows of a Hugging Face dataset on disk, one record for each.

    meta.split is the split. Nothing is fetched, and no script in the folder is run.
    """
    from bmtools.corpus.formats.texts.arrow import dataset_records

    return dataset_records(files, list(filter(None, splits.split(","))), id_key, text_key, counts,
                           reject)
