"""`bmtools import conll`."""

from functools import partial

import click

from bmtools.cli.options import usage_errors
from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("CoNLL columns", "token-column tag-column default-type documents",
               "train.tsv --lang it -o train.jsonl", "train.tsv --default-type DISEASE --documents")
@click.option("--token-column", type=click.IntRange(min=1), default=1, show_default=True,
              help="Column of the token, counted from 1.")
@click.option("--tag-column", type=click.IntRange(min=1), show_default="last",
              help="Column of the tag, counted from 1.")
@click.option("--default-type", default="ENTITY", show_default=True, metavar="NAME",
              help="Type of entities whose tags name none.")
@click.option("--documents", is_flag=True,
              help="One record for every -DOCSTART- line, its sentences a line each.")
@imports
def command(token_column: int, tag_column: int | None, default_type: str,
            documents: bool) -> Reader:
    """CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.

    The text is the tokens with one space between them.
    """
    from bmtools.corpus.formats.sets.conll import ConllConfig, conll_records

    with usage_errors():
        config = ConllConfig(token_column, tag_column or 0, default_type, documents)
    return partial(conll_records, config=config)
