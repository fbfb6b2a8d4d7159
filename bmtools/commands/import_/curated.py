"""`bmtools import curated`."""

import click

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("JSON of curated sentences", "unmasked", "curated.json -o curated.jsonl",
               "curated.json --unmasked")
@click.option("--unmasked", is_flag=True,
              help="One record for every sentence, unmasked, for score-pppl.")
@imports
def command(unmasked: bool) -> Reader:
    """BioBIT's curated maskings, one record with text and target for each."""
    from bmtools.corpus.formats.sets.curated import curated_records, unmasked_records

    return unmasked_records if unmasked else curated_records
