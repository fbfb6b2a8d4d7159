"""`bmtools import pubtator`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_mention_pairs
from bmtools.corpus.formats.settings import MentionPairs


@source_format("PubTator's lines", "mention-pairs", "pubtator.txt -o train.jsonl",
               "pubtator.txt --mention-pairs all")
@takes_mention_pairs
@imports
def command(mention_pairs: MentionPairs) -> Reader:
    """PubTator's lines, as BioRED and BC5CDR are published, one record for every document.

    The text is the title, a blank and the abstract. Relations are between concepts, so that pairs
    of their mentions are made. A mention that is not at its offset moves to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.pubtator import pubtator_records

    return partial(pubtator_records, pairs=mention_pairs)
