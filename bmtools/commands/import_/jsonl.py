"""`bmtools import jsonl`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("JSON Lines", "id-key text-key", "other.jsonl --text-key abstract -o notes.jsonl",
               "other.jsonl --id-key pmid --text-key abstract --lang en")
@click.option("--id-key", default="id", show_default=True, metavar="KEY",
              help="Key of the id.")
@click.option("--text-key", default="text", show_default=True, metavar="KEY",
              help="Key of the text.")
@imports_texts
def command(id_key: str, text_key: str) -> Source:
    """Foreign JSON Lines, under the keys that commands agree on.

    Numbers in id become text, a missing id becomes FILE:LINE, other keys pass through.
    """
    from bmtools.corpus.formats.texts.json_lines import jsonl_records

    return Source(partial(jsonl_records, id_key=id_key, text_key=text_key))
