"""`bmtools import biobit-qa`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("JSON of lists by split", "split",
               "biobit.json --split train --lang it -o train.jsonl",
               "biobit.json --split dev --lang it -o dev.jsonl")
@click.option("--split", required=True, metavar="NAME", help="Split to read: train, dev, test.")
@imports
def command(split: str) -> Reader:
    """BioBIT's Italian BioASQ questions, one split of them.

    What repeats is counted: records, and questions that other splits have, too.
    """
    from bmtools.corpus.formats.sets.bioasq import biobit_records

    return partial(biobit_records, split=split)
