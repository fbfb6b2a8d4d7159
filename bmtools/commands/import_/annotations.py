"""`bmtools import` of annotated texts: tags, stand-off mentions, curated maskings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from bmtools.cli.options import usage_errors
from bmtools.commands.import_.importing import imports, source_format
from bmtools.errors import Reject
from bmtools.records import Record


@source_format("conll", "CoNLL columns", "token-column tag-column default-type documents",
         "train.tsv --lang it -o train.jsonl",
         "train.tsv --default-type DISEASE --documents")
@click.option("--token-column", type=click.IntRange(min=1), default=1, show_default=True,
              help="Column of the token, counted from 1.")
@click.option("--tag-column", type=click.IntRange(min=1), show_default="last",
              help="Column of the tag, counted from 1.")
@click.option("--default-type", default="ENTITY", show_default=True, metavar="NAME",
              help="Type of entities whose tags name none.")
@click.option("--documents", is_flag=True,
              help="One record for every -DOCSTART- line, its sentences a line each.")
@imports
def conll(files: tuple[str, ...], token_column: int, tag_column: int | None, default_type: str,
          documents: bool, counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.

    The text is the tokens with one space between them.
    """
    from bmtools.corpus.formats.sets.conll import ConllConfig, conll_records

    with usage_errors():
        config = ConllConfig(token_column, tag_column or 0, default_type, documents)
    return conll_records(files, config, counts, reject)


@source_format("standoff", "Lines of id|text", "annotations",
         "texts.txt --annotations mentions.txt",
         "texts.txt --annotations mentions.txt --rejects lost.jsonl")
@click.option("--annotations", multiple=True, required=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False),
              help="Mentions: id, start, end, text, type by tab, with T or A after the id or "
                   "without. May be given again.")
@imports
def standoff(files: tuple[str, ...], annotations: tuple[str, ...], counts: Counter[str],
             reject: Reject) -> Iterator[Record]:
    """Lines of id|text, with mentions in a file of their own.

    A mention that is not at its offset moves to its nearest occurrence. One that occurs nowhere is
    counted, and collected under --rejects; its text stays.
    """
    from bmtools.corpus.formats.sets.standoff import standoff_records

    return standoff_records(files, annotations, counts, reject)


@source_format("curated", "JSON of curated sentences", "unmasked",
         "curated.json -o curated.jsonl",
         "curated.json --unmasked")
@click.option("--unmasked", is_flag=True,
              help="One record for every sentence, unmasked, for score-pppl.")
@imports
def curated(files: tuple[str, ...], counts: Counter[str], reject: Reject,
            unmasked: bool) -> Iterator[Record]:
    """BioBIT's curated maskings, one record with text and target for each."""
    from bmtools.corpus.formats.sets.curated import curated_records, unmasked_records

    return (unmasked_records if unmasked else curated_records)(files, reject)
