"""`bmtools import` of sets with entities and relations: DDI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from bmtools.commands.import_.importing import imports_folders, source_format
from bmtools.errors import Reject
from bmtools.records import Record


@source_format("ddi", "XML of DDI-2013", "default-type",
               "DDICorpus-2013.zip/DDICorpus/Train -o train.jsonl", folders=True)
@click.option("--default-type", default="int", show_default=True, metavar="NAME",
              help="Type of pairs that interact and have none.")
@imports_folders
def ddi(files: tuple[str, ...], default_type: str, counts: Counter[str],
        reject: Reject) -> Iterator[Record]:
    """Drug-drug interactions of DDI-2013, one record for every sentence.

    Pairs that interact become relations; the false pairs are all others of a sentence's entities.
    The corpus's zip is read as it is, a part of it by its path. meta.document is the document.
    """
    from bmtools.corpus.ddi import ddi_records

    return ddi_records(files, default_type, counts, reject)
