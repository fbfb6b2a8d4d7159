"""`bmtools import i2b2-xml`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("XML of i2b2 2012 or 2014", "", "i2b2.xml -o train.jsonl",
               "i2b2.xml --rejects lost.jsonl", folders=True)
@partial(imports, folders=True)
def command() -> Reader:
    """Events and times of i2b2 2012, identifiers of 2014, one record for every file.

    Links of 2012 become relations.
    """
    from bmtools.corpus.formats.sets.i2b2 import i2b2_xml_records

    return i2b2_xml_records
