"""`bmtools import bioc-json`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_mention_pairs
from bmtools.corpus.formats.settings import MentionPairs


@source_format("BioC's JSON", "mention-pairs", "bioc.json -o train.jsonl",
               "bioc.json --mention-pairs all", folders=True)
@takes_mention_pairs
@partial(imports, folders=True)
def command(mention_pairs: MentionPairs) -> Reader:
    """BioC's JSON, as PubTator serves it, one record for every document.

    It is read as import bioc reads the XML.
    """
    from bmtools.corpus.formats.sets.bioc import bioc_json_records

    return partial(bioc_json_records, pairs=mention_pairs)
