"""`bmtools import` of sets with entities and relations, by their name or format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, get_args

import click

from bmtools.cli.help import Choice
from bmtools.commands.import_.importing import imports, imports_folders, source_format
from bmtools.corpus.choices import Genes, MentionPairs, RelationTypes
from bmtools.errors import Reject
from bmtools.records import Record


def _takes_table(name: str, required: bool = False) -> Callable[[Any], Any]:
    return click.option(f"--{name}", multiple=True, required=required, metavar="FILE",
                        type=click.Path(exists=True, dir_okay=False),
                        help=f"Table of {name} by tab. May be given again.")


takes_mention_pairs = click.option(
    "--mention-pairs", type=Choice(get_args(MentionPairs)), default="closest", show_default=True,
    help="Mentions of two related concepts that make relations: each of the one that has more, "
         "with the closest of the other; as BioBIT, only where the head comes first; all.")


@source_format("bioc", "BioC's XML", "mention-pairs",
               "bioc.xml -o train.jsonl", "bioc.xml --mention-pairs all", folders=True)
@takes_mention_pairs
@imports_folders
def bioc(files: tuple[str, ...], mention_pairs: MentionPairs, counts: Counter[str],
         reject: Reject) -> Iterator[Record]:
    """BioC's XML, one record for every document.

    The passages are joined by a blank. Relations are between annotations, or between concepts as
    in BioRED and BC5CDR, so that pairs of their mentions are made.
    """
    from bmtools.corpus.formats.sets.bioc import bioc_records

    return bioc_records(files, mention_pairs, counts, reject)


@source_format("bioc-json", "BioC's JSON", "mention-pairs",
               "bioc.json -o train.jsonl", "bioc.json --mention-pairs all", folders=True)
@takes_mention_pairs
@imports_folders
def bioc_json(files: tuple[str, ...], mention_pairs: MentionPairs, counts: Counter[str],
              reject: Reject) -> Iterator[Record]:
    """BioC's JSON, as PubTator serves it, one record for every document.

    It is read as import bioc reads the XML.
    """
    from bmtools.corpus.formats.sets.bioc import bioc_json_records

    return bioc_json_records(files, mention_pairs, counts, reject)


@source_format("biored", "BioBIT's JSON of texts", "entities relations mention-pairs",
               "texts.json --entities concepts.txt --relations related.txt -o train.jsonl",
               "texts.json --entities concepts.txt --relations related.txt --mention-pairs all")
@_takes_table("entities", required=True)
@_takes_table("relations", required=True)
@takes_mention_pairs
@imports
def biored(files: tuple[str, ...], entities: tuple[str, ...], relations: tuple[str, ...],
           mention_pairs: MentionPairs, counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """BioBIT's Italian BioRED, one record for every abstract.

    A mention that is not at its offset moves to its nearest occurrence. Relations are between
    concepts, so that pairs of their mentions are made. What is lost is counted, and collected
    under --rejects. The original BioRED is read by import pubtator or import bioc.
    """
    from bmtools.corpus.formats.sets.biored import biored_records

    return biored_records(files, entities, relations, mention_pairs, counts, reject)


@source_format("brat", "Folders of .txt and .ann", "", "brat -o records.jsonl",
               "brat/1.ann", folders=True)
@imports_folders
def brat(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Texts of BRAT with their annotations, one record for every text.

    Entities may be in parts. Events, attributes, normalisations and notes stay under meta.brat.
    A mention that is not at its offset moves to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.brat import brat_records

    return brat_records(files, counts, reject)


@source_format("chemprot", "Abstracts by tab, BioBIT's JSON, or SciBERT's JSON Lines",
               "entities relations genes relation-types default-type",
               "abstracts.tsv --entities entities.tsv --relations relations.tsv -o train.jsonl",
               "marked.jsonl")
@_takes_table("entities")
@_takes_table("relations")
@click.option("--genes", type=Choice(get_args(Genes)), default="keep", show_default=True,
              help="Keep the types GENE-Y and GENE-N, or merge them to GENE.")
@click.option("--relation-types", type=Choice(get_args(RelationTypes)), default="group",
              show_default=True,
              help="Type of relations: their group, as CPR:4, or their label, as INHIBITOR.")
@click.option("--default-type", default="ENTITY", show_default=True, metavar="NAME",
              help="Type of SciBERT's entities, which have none.")
@imports
def chemprot(files: tuple[str, ...], entities: tuple[str, ...], relations: tuple[str, ...],
             genes: Genes, relation_types: RelationTypes, default_type: str, counts: Counter[str],
             reject: Reject) -> Iterator[Record]:
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
        return marked_records(files, default_type, reject)
    return chemprot_records(files, entities, relations, genes, relation_types, counts, reject)


@source_format("ddi", "XML of DDI-2013", "default-type",
               "DDICorpus-2013.zip/DDICorpus/Train -o train.jsonl",
               "DDICorpus-2013.zip --default-type int --rejects lost.jsonl", folders=True)
@click.option("--default-type", default="int", show_default=True, metavar="NAME",
              help="Type of pairs that interact and have none.")
@imports_folders
def ddi(files: tuple[str, ...], default_type: str, counts: Counter[str],
        reject: Reject) -> Iterator[Record]:
    """Drug-drug interactions of DDI-2013, one record for every sentence.

    Pairs that interact become relations; the false pairs are all others of a sentence's entities.
    The corpus's zip is read as it is, a part of it by its path. meta.document is the document.
    """
    from bmtools.corpus.formats.sets.ddi import ddi_records

    return ddi_records(files, default_type, counts, reject)


@source_format("i2b2-2010", "Folders of .txt, .con, .rel and .ast", "",
               "i2b2-2010 -o train.jsonl", "i2b2-2010 --rejects lost.jsonl", folders=True)
@imports_folders
def i2b2_2010(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Concepts, assertions and relations of i2b2 2010, one record for every text.

    Files of one name belong together, whatever folders they are in.
    """
    from bmtools.corpus.formats.sets.i2b2 import i2b2_2010_records

    return i2b2_2010_records(files, counts, reject)


@source_format("i2b2-xml", "XML of i2b2 2012 or 2014", "",
               "i2b2.xml -o train.jsonl", "i2b2.xml --rejects lost.jsonl", folders=True)
@imports_folders
def i2b2_xml(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Events and times of i2b2 2012, identifiers of 2014, one record for every file.

    Links of 2012 become relations.
    """
    from bmtools.corpus.formats.sets.i2b2 import i2b2_xml_records

    return i2b2_xml_records(files, counts, reject)


@source_format("multiclinai", "Folders of .txt", "annotations",
               "notes.txt --annotations spans.tsv -o train.jsonl",
               "notes.txt --annotations spans.tsv --rejects lost.jsonl", folders=True)
@click.option("--annotations", multiple=True, required=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False),
              help="Table by tab with the columns filename, label, start_span, end_span, text. May "
                   "be given again.")
@imports_folders
def multiclinai(files: tuple[str, ...], annotations: tuple[str, ...], counts: Counter[str],
                reject: Reject) -> Iterator[Record]:
    """Texts and the table of MultiClinAI, one record for every text.

    Tables of DisTEMIST and MultiCardioNER are read, too. A mention that is not at its offset moves
    to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.multiclinai import multiclinai_records

    return multiclinai_records(files, annotations, counts, reject)


@source_format("pubtator", "PubTator's lines", "mention-pairs",
               "pubtator.txt -o train.jsonl", "pubtator.txt --mention-pairs all")
@takes_mention_pairs
@imports
def pubtator(files: tuple[str, ...], mention_pairs: MentionPairs, counts: Counter[str],
             reject: Reject) -> Iterator[Record]:
    """PubTator's lines, as BioRED and BC5CDR are published, one record for every document.

    The text is the title, a blank and the abstract. Relations are between concepts, so that pairs
    of their mentions are made. A mention that is not at its offset moves to its nearest occurrence.
    """
    from bmtools.corpus.formats.sets.pubtator import pubtator_records

    return pubtator_records(files, mention_pairs, counts, reject)
