"""`bmtools import dataset`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format
from bmtools.commands.import_.options import takes_id_key, takes_text_key


@source_format("Folders that datasets' save_to_disk wrote, or of Parquet files",
               "splits id-key text-key", "saved -o texts.jsonl",
               "saved --splits train,validation --text-key note")
@click.option("--splits", default="", metavar="NAME,...", help="Take these splits alone.")
@takes_id_key
@takes_text_key
@partial(imports_texts, folders=True)
def command(splits: str, id_key: str, text_key: str) -> Source:
    """Rows of a Hugging Face dataset on disk, one record for each.

    meta.split is the split. Nothing is fetched, and no script in the folder is run.
    """
    from bmtools.corpus.formats.texts.arrow import dataset_records

    names = list(filter(None, splits.split(",")))
    return Source(partial(dataset_records, splits=names, id_key=id_key, text_key=text_key))
