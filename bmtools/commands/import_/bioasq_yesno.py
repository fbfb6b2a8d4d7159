"""`bmtools import bioasq-yesno`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.corpus.formats.settings import BIOASQ_YESNO


@source_format("TSV of yesno_label, question and ideal_answer", "", "yesno.tsv -o yesno.jsonl",
               "yesno.tsv --lang en")
@imports
def command() -> Reader:
    """BioASQ's yes/no questions as TSV, to their ideal answers.

    bioasq --type yesno reads BioASQ's own files.
    """
    from bmtools.corpus.tables import table_records

    return partial(table_records, config=BIOASQ_YESNO)
