"""`bmtools import multiclinai`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_tables


@source_format("Folders of .txt", "annotations", "notes.txt --annotations spans.tsv -o train.jsonl",
               "notes.txt --annotations spans.tsv --rejects lost.jsonl", folders=True)
@takes_tables("annotations", "Table by tab with the columns filename, label, start_span, end_span, "
              "text.", required=True)
@partial(imports, folders=True)
def command(annotations: tuple[str, ...]) -> Reader:
    """Texts and the table of MultiClinAI, one record for every text.

    Tables of DisTEMIST and MultiCardioNER are read, too. A mention that is not at its offset moves
    to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.multiclinai import multiclinai_records

    return partial(multiclinai_records, annotations=annotations)
