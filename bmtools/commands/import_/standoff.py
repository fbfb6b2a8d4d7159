"""`bmtools import standoff`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_tables


@source_format("Lines of id|text", "annotations", "texts.txt --annotations mentions.txt",
               "texts.txt --annotations mentions.txt --rejects lost.jsonl")
@takes_tables("annotations", "Mentions: id, start, end, text, type by tab, with T or A after the "
              "id or without.", required=True)
@imports
def command(annotations: tuple[str, ...]) -> Reader:
    """Lines of id|text, with mentions in a file of their own.

    A mention that is not at its offset moves to its nearest occurrence. One that occurs nowhere is
    counted, and collected under --rejects; its text stays.
    """
    from bmtools.corpus.formats.sets.standoff import standoff_records

    return partial(standoff_records, annotations=annotations)
