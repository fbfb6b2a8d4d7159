"""`bmtools import text`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format
from bmtools.corpus.formats.settings import Unit


@source_format("UTF-8 text", "paragraphs whole-files account", "notes.txt --lang it -o notes.jsonl",
               "notes.txt --paragraphs --sentences --lang it")
@click.option("--paragraphs", "unit", flag_value="paragraph",
              help="One record for every paragraph; a blank line ends it.")
@click.option("--whole-files", "unit", flag_value="file", help="One record for every file.")
@partial(imports_texts, has_account=True)
def command(unit: Unit | None, with_account: bool) -> Source:
    """Plain text, one record for every line that is not blank.

    Ids are the name of the file and the number of the line.
    """
    from bmtools.corpus.formats.texts.plain_text import text_account, text_records

    return Source(partial(text_records, unit=unit or "line"), text_account)
