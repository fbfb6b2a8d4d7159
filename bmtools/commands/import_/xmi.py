"""`bmtools import xmi`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("UIMA's XMI, as WebAnno, INCEpTION and cTAKES write, in folders, zip or tar "
               "archives", "types", "case.xmi -o cases.jsonl",
               "case.xmi --types CLINENTITY,BODYPART --sentences --lang it")
@click.option("--types", metavar="NAME,...",
              help="Elements that become entities; otherwise all but tokens, sentences, syntax and "
                   "facts about the document.")
@partial(imports_texts, folders=True)
def command(types: str | None) -> Source:
    """UIMA's XMI, as of E3C, one record for every view with a text.

    An entity's type is the name of its element, its features are in attributes. Links between
    annotations become relations. Offsets, which count UTF-16 units, become code points.
    """
    from bmtools.corpus.formats.sets.xmi import xmi_records

    names = tuple(name.strip() for name in (types or "").split(",") if name.strip())
    return Source(partial(xmi_records, types=names))
