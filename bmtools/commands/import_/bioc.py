"""`bmtools import bioc`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_mention_pairs
from bmtools.corpus.formats.settings import MentionPairs


@source_format("BioC's XML", "mention-pairs", "bioc.xml -o train.jsonl",
               "bioc.xml --mention-pairs all", folders=True)
@takes_mention_pairs
@partial(imports, folders=True)
def command(mention_pairs: MentionPairs) -> Reader:
    """BioC's XML, one record for every document.

    The passages are joined by a blank. Relations are between annotations, or between concepts as
    in BioRED and BC5CDR, so that pairs of their mentions are made.
    """
    from bmtools.corpus.formats.sets.bioc import bioc_records

    return partial(bioc_records, pairs=mention_pairs)
