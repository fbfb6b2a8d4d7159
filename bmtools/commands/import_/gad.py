"""`bmtools import gad`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.corpus.formats.settings import GAD


@source_format("TSV of sentence and label", "", "gad.tsv -o train.jsonl", "gad.tsv --source GAD")
@imports
def command() -> Reader:
    """GAD and EU-ADR, sentences with @GENE$ and @DISEASE$ and the label 0 or 1.

    The first line may name the columns, as in test.tsv, or not, as in train.tsv.
    """
    from bmtools.corpus.tables import table_records

    return partial(table_records, config=GAD, headless=("sentence", "label"))
