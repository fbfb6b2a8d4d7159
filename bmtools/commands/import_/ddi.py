"""`bmtools import ddi`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("XML of DDI-2013", "default-type",
               "DDICorpus-2013.zip/DDICorpus/Train -o train.jsonl",
               "DDICorpus-2013.zip --default-type int --rejects lost.jsonl", folders=True)
@click.option("--default-type", default="int", show_default=True, metavar="NAME",
              help="Type of pairs that interact and have none.")
@partial(imports, folders=True)
def command(default_type: str) -> Reader:
    """Drug-drug interactions of DDI-2013, one record for every sentence.

    Pairs that interact become relations; the false pairs are all others of a sentence's entities.
    The corpus's zip is read as it is, a part of it by its path. meta.document is the document.
    """
    from bmtools.corpus.formats.sets.ddi import ddi_records

    return partial(ddi_records, default_type=default_type)
