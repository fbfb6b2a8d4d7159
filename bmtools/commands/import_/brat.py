"""`bmtools import brat`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("Folders of .txt and .ann", "", "brat -o records.jsonl", "brat/1.ann", folders=True)
@partial(imports, folders=True)
def command() -> Reader:
    """Texts of BRAT with their annotations, one record for every text.

    Entities may be in parts. Events, attributes, normalisations and notes stay under meta.brat.
    A mention that is not at its offset moves to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.brat import brat_records

    return brat_records
