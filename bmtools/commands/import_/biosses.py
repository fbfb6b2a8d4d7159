"""`bmtools import biosses`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.corpus.formats.settings import BIOSSES


@source_format("TSV of sentence1, sentence2 and score", "", "biosses.tsv -o biosses.jsonl",
               "biosses.tsv --lang en")
@imports
def command() -> Reader:
    """BIOSSES, pairs of sentences with their similarity under score."""
    from bmtools.corpus.tables import table_records

    return partial(table_records, config=BIOSSES)
