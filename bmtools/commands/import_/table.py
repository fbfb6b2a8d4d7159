"""`bmtools import table`."""

from functools import partial

from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.corpus.formats.settings import TableConfig


@source_format("CSV or TSV", "", "notes.csv --text-column note --id-column number -o notes.jsonl",
               "pairs.tsv --text-column 1 --text-pair-column 2 --label-column 3 --no-header")
@takes_settings(TableConfig, "config")
@imports
def command(config: TableConfig) -> Reader:
    """Any CSV or TSV, one record for every row.

    Other columns go to meta. Tabs, commas or semicolons are found in the first line.
    """
    from bmtools.corpus.tables import table_records

    return partial(table_records, config=config)
