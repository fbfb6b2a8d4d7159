"""`bmtools import chemprot`."""

from functools import partial
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.commands.import_.options import takes_tables
from bmtools.corpus.formats.settings import Genes, RelationTypes


@source_format("Abstracts by tab, BioBIT's JSON, or SciBERT's JSON Lines",
               "entities relations genes relation-types default-type",
               "abstracts.tsv --entities entities.tsv --relations relations.tsv -o train.jsonl",
               "marked.jsonl")
@takes_tables("entities")
@takes_tables("relations")
@click.option("--genes", type=Choice(get_args(Genes)), default="keep", show_default=True,
              help="Keep the types GENE-Y and GENE-N, or merge them to GENE.")
@click.option("--relation-types", type=Choice(get_args(RelationTypes)), default="group",
              show_default=True,
              help="Type of relations: their group, as CPR:4, or their label, as INHIBITOR.")
@click.option("--default-type", default="ENTITY", show_default=True, metavar="NAME",
              help="Type of SciBERT's entities, which have none.")
@imports
def command(entities: tuple[str, ...], relations: tuple[str, ...], genes: Genes,
            relation_types: RelationTypes, default_type: str) -> Reader:
    """ChemProt as BioCreative VI, BioBIT or SciBERT publish it.

    BioCreative's and BioBIT's three files give one record for every abstract; the group of a
    relation is its type, its label stays under label. A mention that is not at its offset moves to
    its nearest occurrence. Mentions and relations that are lost are counted, and collected under
    --rejects. Without --entities and --relations, sentences marked by << a >> and [[ b ]] are
    read, with one relation each.

    The relations of BioBIT's Italian files seem to name the entities of the English ones, which are
    numbered otherwise: 47 % of those of train join a chemical and a gene, in English all do.
    """
    from bmtools.corpus.formats.sets.chemprot import chemprot_records, marked_records

    if bool(entities) != bool(relations):
        raise click.UsageError("found one of --entities and --relations, expected both, or neither "
                               "for SciBERT's lines")
    if not entities:
        return partial(marked_records, default_type=default_type)
    return partial(chemprot_records, entity_files=entities, relation_files=relations, genes=genes,
                   relation_types=relation_types)
