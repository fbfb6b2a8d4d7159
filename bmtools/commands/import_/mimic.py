"""`bmtools import mimic`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("NOTEEVENTS.csv, discharge.csv or radiology.csv of MIMIC", "kinds marks",
               "NOTEEVENTS.csv.gz --kinds Physician -o notes.jsonl",
               "NOTEEVENTS.csv.gz --kinds 'Discharge summary,Physician' --marks '[MARK]'")
@click.option("--kinds", default="", metavar="KIND,...",
              help="Take notes of these kinds alone: CATEGORY of MIMIC-III, note type of MIMIC-IV.")
@click.option("--marks", metavar="TEXT",
              help="Put this in place of marks of de-identification, [**...**] and ___.")
@imports_texts
def command(kinds: str, marks: str | None) -> Source:
    """Notes of MIMIC-III or MIMIC-IV-Note, one record for each.

    Their columns are found by name. meta has kind, patient, admission and date; notes that are
    marked as errors are left out.
    """
    from bmtools.corpus.formats.texts.mimic import mimic_records

    return Source(partial(mimic_records, kinds=list(filter(None, kinds.split(","))), marks=marks))
