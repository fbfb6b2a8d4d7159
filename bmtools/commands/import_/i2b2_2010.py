"""`bmtools import i2b2-2010`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("Folders of .txt, .con, .rel and .ast", "", "i2b2-2010 -o train.jsonl",
               "i2b2-2010 --rejects lost.jsonl", folders=True)
@partial(imports, folders=True)
def command() -> Reader:
    """Concepts, assertions and relations of i2b2 2010, one record for every text.

    Files of one name belong together, whatever folders they are in.
    """
    from bmtools.corpus.formats.sets.i2b2 import i2b2_2010_records

    return i2b2_2010_records
