"""`bmtools import pubmedqa`."""

from functools import partial

import click

from bmtools.cli.parameters import InputFile
from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("JSON of PubMedQA", "ids without-ids",
               "pubmedqa.json --ids test_ground_truth.json -o test.jsonl",
               "pubmedqa.json --without-ids test_ground_truth.json -o train.jsonl")
@click.option("--ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Take the questions of these PMIDs alone: keys of JSON, or one a line.")
@click.option("--without-ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Leave the questions of these PMIDs out.")
@imports
def command(ids: str | None, without_ids: str | None) -> Reader:
    """PubMedQA, one record for every question, with label yes, no or maybe.

    The text is the abstract without its conclusion, which is meta.long_answer.
    """
    from bmtools.corpus.formats.sets.pubmedqa import pubmedqa_records, read_ids

    return partial(pubmedqa_records, ids=read_ids(ids) if ids else None,
                   without=read_ids(without_ids) if without_ids else ())
