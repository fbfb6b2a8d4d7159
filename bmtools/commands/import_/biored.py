"""`bmtools import biored`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_mention_pairs, takes_tables
from bmtools.corpus.formats.settings import MentionPairs


@source_format("BioBIT's JSON of texts", "entities relations mention-pairs",
               "texts.json --entities concepts.txt --relations related.txt -o train.jsonl",
               "texts.json --entities concepts.txt --relations related.txt --mention-pairs all")
@takes_tables("entities", required=True)
@takes_tables("relations", required=True)
@takes_mention_pairs
@imports
def command(entities: tuple[str, ...], relations: tuple[str, ...],
            mention_pairs: MentionPairs) -> Reader:
    """BioBIT's Italian BioRED, one record for every abstract.

    A mention that is not at its offset moves to its nearest occurrence. Relations are between
    concepts, so that pairs of their mentions are made. What is lost is counted, and collected
    under --rejects. The original BioRED is read by import pubtator.
    """
    from bmtools.corpus.formats.sets.biored import biored_records

    return partial(biored_records, entity_files=entities, relation_files=relations,
                   pairs=mention_pairs)
