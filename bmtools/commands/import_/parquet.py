"""`bmtools import parquet`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format
from bmtools.commands.import_.options import takes_id_key, takes_text_key


@source_format("Parquet", "id-key text-key", "notes.parquet -o notes.jsonl",
               "notes.parquet --id-key number --text-key note", archives=True)
@takes_id_key
@takes_text_key
@partial(imports_texts, folders=True)
def command(id_key: str, text_key: str) -> Source:
    """Rows of Parquet files, one record for each.

    Columns are taken as import jsonl takes keys; those of bytes, as images, are left out.
    """
    from bmtools.corpus.formats.texts.arrow import parquet_records

    return Source(partial(parquet_records, id_key=id_key, text_key=text_key))
