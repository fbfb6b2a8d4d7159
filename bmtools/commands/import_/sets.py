"""Formats of annotated sets.

The help of each command is the docstring of its function, its options are arguments of its reader.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Decorator
from bmtools.cli.parameters import InputFile
from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import reads
from bmtools.corpus.formats.settings import (
    BIOASQ_YESNO,
    BIOSSES,
    GAD,
    ConllConfig,
    Genes,
    MentionPairs,
    QuestionType,
    RelationTypes,
    TableConfig,
)

FORMATS: dict[str, click.Command] = {}
_reads = partial(reads, FORMATS)
_takes_mention_pairs = click.option(
    "--mention-pairs", "pairs", type=Choice(get_args(MentionPairs)), default="closest",
    show_default=True,
    help="Mentions of two related concepts that make relations: each of the one that has more, "
         "with the closest of the other; as BioBIT, only where the head comes first; all.")


def _takes_tables(name: str, parameter: str, required: bool = False, help: str = "") -> Decorator:
    """Add an option for tables of annotations, which may be given again."""
    return click.option(f"--{name}", parameter, multiple=True, required=required, metavar="FILE",
                        type=InputFile(allow_dash=False),
                        help=f"{help or f'Table of {name} by tab.'} May be given again.")


def _takes_default_type(default: str, help: str) -> Decorator:
    return click.option("--default-type", default=default, show_default=True, metavar="NAME",
                        help=help)


@_reads("formats.sets.bioasq:bioasq_records", "JSON of BioASQ's task B",
        "bioasq.json --type factoid -o factoid.jsonl", "bioasq.json --type yesno -o yesno.jsonl")
@click.option("--type", type=Choice(get_args(QuestionType)), required=True,
              help="Type of the questions.")
def bioasq() -> None:
    """BioASQ's own files, the questions of one type.

    Of factoid and list questions every snippet is a record, whose answers are the spellings of the
    exact answer that it contains; meta.exact_answer has all of them, and meta.question is the
    question, over whose snippets score-tasks --task factoid merges. The text of a yes/no or summary
    question is its snippets, and its answer is label or meta.ideal_answer.
    """


@_reads("tables:table_records", "TSV of yesno_label, question and ideal_answer",
        "yesno.tsv -o yesno.jsonl", "yesno.tsv --lang en", config=BIOASQ_YESNO)
def bioasq_yesno() -> None:
    """BioASQ's yes/no questions as TSV, to their ideal answers.

    bioasq --type yesno reads BioASQ's own files.
    """


@_reads("formats.sets.bioasq:biobit_records", "JSON of lists by split",
        "biobit.json --split train --lang it -o train.jsonl",
        "biobit.json --split dev --lang it -o dev.jsonl")
@click.option("--split", required=True, metavar="NAME", help="Split to read: train, dev, test.")
def biobit_qa() -> None:
    """BioBIT's Italian BioASQ questions, one split of them.

    What repeats is counted: records, and questions that other splits have, too.
    """


@_reads("formats.sets.chemprot:biored_records", "BioBIT's JSON of texts",
        "texts.json --entities concepts.txt --relations related.txt -o train.jsonl",
        "texts.json --entities concepts.txt --relations related.txt --mention-pairs all")
@_takes_tables("entities", "entity_files", required=True)
@_takes_tables("relations", "relation_files", required=True)
@_takes_mention_pairs
def biored() -> None:
    """BioBIT's Italian BioRED, one record for every abstract.

    A mention that is not at its offset moves to its nearest occurrence. Relations are between
    concepts, so that pairs of their mentions are made. What is lost is counted, and collected
    under --rejects. The original BioRED is read by import pubtator.
    """


@_reads("tables:table_records", "TSV of sentence1, sentence2 and score",
        "biosses.tsv -o biosses.jsonl", "biosses.tsv --lang en", config=BIOSSES)
def biosses() -> None:
    """BIOSSES, pairs of sentences with their similarity under score."""


@_reads("formats.sets.brat:brat_records", "Folders of .txt and .ann", "brat -o records.jsonl",
        "brat --labels codes.tsv", folders=True)
@_takes_tables("labels", "label_files", help="Table of document and label by tab, which become "
               "labels; a document that it does not list has none.")
def brat() -> None:
    """Texts of BRAT with their annotations, one record for every text.

    Entities may be in parts. Events, relations between them, attributes, normalisations and notes
    stay under meta.brat, unless they refer to a lost annotation. Codes in normalisations and notes
    are also the identifier of their entity. A mention that is not at its offset moves to its
    nearest occurrence. If texts and annotations are in separate folders, name the folder of
    annotations first.
    """


@_reads("formats.sets.chemprot:chemprot_records",
        "Abstracts by tab, BioBIT's JSON, or SciBERT's JSON Lines",
        "abstracts.tsv --entities entities.tsv --relations relations.tsv -o train.jsonl",
        "marked.jsonl")
@_takes_tables("entities", "entity_files")
@_takes_tables("relations", "relation_files")
@click.option("--genes", type=Choice(get_args(Genes)), default="keep", show_default=True,
              help="Keep the types GENE-Y and GENE-N, or merge them to GENE.")
@click.option("--relation-types", type=Choice(get_args(RelationTypes)), default="group",
              show_default=True,
              help="Type of relations: their group, as CPR:4, or their label, as INHIBITOR.")
@_takes_default_type("ENTITY", "Type of SciBERT's entities, which have none.")
def chemprot() -> None:
    """ChemProt as BioCreative VI, BioBIT or SciBERT publish it.

    BioCreative's and BioBIT's three files give one record for every abstract; the group of a
    relation is its type, its label stays under label. A mention that is not at its offset moves to
    its nearest occurrence. Mentions and relations that are lost are counted, and collected under
    --rejects. Without --entities and --relations, sentences marked by << a >> and [[ b ]] are
    read, with one relation each.

    The relations of BioBIT's Italian files seem to name the entities of the English ones, which are
    numbered otherwise: 47 % of those of train join a chemical and a gene, in English all do.
    """


@_reads("formats.sets.conll:conll_records", "CoNLL columns", "train.tsv --lang it -o train.jsonl",
        "train.tsv --default-type DISEASE --documents")
@takes_settings(ConllConfig, "config")
def conll() -> None:
    """CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.

    The text is the tokens with one space between them.
    """


@_reads("formats.sets.curated:curated_records", "JSON of curated sentences",
        "curated.json -o curated.jsonl", "curated.json --unmasked")
@click.option("--unmasked", is_flag=True,
              help="One record for every sentence, unmasked, for score-pppl.")
@click.option("--windows", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Write maskings of longer texts also with 1 to N lines before and after them, "
                   "for score-mrr --by window.")
def curated() -> None:
    """BioBIT's curated maskings, one record with text and target for each."""


@_reads("formats.sets.ddi:ddi_records", "XML of DDI-2013",
        "DDICorpus-2013.zip/DDICorpus/Train -o train.jsonl",
        "DDICorpus-2013.zip --default-type int --rejects lost.jsonl", folders=True)
@_takes_default_type("int", "Type of pairs that interact and have none.")
def ddi() -> None:
    """Drug-drug interactions of DDI-2013, one record for every sentence.

    Pairs that interact become relations; the false pairs are all others of a sentence's entities.
    The corpus's zip is read as it is, a part of it by its path. meta.document is the document.
    """


@_reads("formats.sets.ebm_nlp:ebm_nlp_records", "EBM-NLP's documents and annotations",
        "ebm_nlp_2_00 --split train -o train.jsonl",
        "ebm_nlp_2_00.tar.gz --split test/gold -o test.jsonl", archives=True)
@click.option("--split", type=Choice(("train", "test/gold", "test/crowd")), required=True,
              help="Split to read.")
def ebm_nlp() -> None:
    """Participants, interventions and outcomes of EBM-NLP, one record for every sentence.

    Entities of the types PAR, INT and OUT may overlap: finetune pico --set overlapping=true learns
    all of them. meta.document is the abstract.
    """


@_reads("tables:table_records", "TSV of sentence and label", "gad.tsv -o train.jsonl",
        "gad.tsv --source GAD", config=GAD, headless=("sentence", "label"))
def gad() -> None:
    """GAD and EU-ADR, sentences with @GENE$ and @DISEASE$ and the label 0 or 1.

    The first line may name the columns, as in test.tsv, or not, as in train.tsv.
    """


@_reads("formats.sets.hoc:hoc_records", "Folders text/ and labels/, or BLUE's TSV",
        "hoc.tsv -o hoc.jsonl", "hoc-original.tar.gz --documents -o hoc.jsonl", archives=True)
@click.option("--documents", is_flag=True,
              help="One record for every abstract, its sentences a line each, as in BLURB.")
def hoc() -> None:
    """Hallmarks of Cancer, one record for every sentence, its hallmarks under labels.

    meta.document is the abstract, meta.label_paths the finer classes of the archive.
    """


@_reads("formats.sets.i2b2:i2b2_2010_records", "Folders of .txt, .con, .rel and .ast",
        "i2b2-2010 -o train.jsonl", "i2b2-2010 --rejects lost.jsonl", folders=True)
def i2b2_2010() -> None:
    """Concepts, assertions and relations of i2b2 2010, one record for every text.

    Files of one name belong together, whatever folders they are in.
    """


@_reads("formats.sets.i2b2:i2b2_xml_records", "XML of i2b2 2012 or 2014",
        "i2b2.xml -o train.jsonl", "i2b2.xml --rejects lost.jsonl", folders=True)
def i2b2_xml() -> None:
    """Events and times of i2b2 2012, identifiers of 2014, one record for every file.

    Links of 2012 become relations.
    """


@_reads("formats.sets.nli:nli_records", "JSON Lines of sentence1, sentence2 and gold_label",
        "nli.jsonl -o train.jsonl", "nli.jsonl --source MedNLI")
def nli() -> None:
    """MedNLI and other sets of SNLI's form, one record for every pair of sentences."""


@_reads("formats.sets.pubmedqa:pubmedqa_records", "JSON of PubMedQA",
        "pubmedqa.json --ids test_ground_truth.json -o test.jsonl",
        "pubmedqa.json --without-ids test_ground_truth.json -o train.jsonl")
@click.option("--ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Take the questions of these PMIDs alone: keys of JSON, or one a line.")
@click.option("--without-ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Leave the questions of these PMIDs out.")
def pubmedqa() -> None:
    """PubMedQA, one record for every question, with label yes, no or maybe.

    The text is the abstract without its conclusion, which is meta.long_answer.
    """


@_reads("formats.sets.pubtator:pubtator_records", "PubTator's lines",
        "pubtator.txt -o train.jsonl", "pubtator.txt --mention-pairs all")
@_takes_mention_pairs
def pubtator() -> None:
    """PubTator's lines, as BioRED and BC5CDR are published, one record for every document.

    The text is the title, a blank and the abstract. Relations are between concepts, so that pairs
    of their mentions are made. A mention that is not at its offset moves to its nearest occurrence.
    """


@_reads("formats.sets.squad:squad_records", "JSON of SQuAD's form", "squad.json -o train.jsonl",
        "squad.json --lang en")
def squad() -> None:
    """SQuAD of both versions, and BioASQ in its form, one record for every question.

    An answer that is not at its offset moves to its nearest occurrence; one that the text
    does not contain is counted, and collected under --rejects. answers is empty where there
    is none.
    """


@_reads("formats.sets.standoff:standoff_records", "Lines of id|text",
        "texts.txt --annotations mentions.txt",
        "texts.txt --annotations mentions.txt --rejects lost.jsonl")
@_takes_tables("annotations", "annotations", True, "Mentions: id, start, end, text, type by tab, "
               "with T or A after the id or without.")
def standoff() -> None:
    """Lines of id|text, with mentions in a file of their own.

    A mention that is not at its offset moves to its nearest occurrence. One that occurs nowhere is
    counted, and collected under --rejects; its text stays.
    """


@_reads("tables:table_records", "CSV or TSV",
        "notes.csv --columns text=note,id=number -o notes.jsonl",
        "pairs.tsv --columns text=1,text_pair=2,label=3 --set header=no")
@takes_settings(TableConfig, "config")
def table() -> None:
    """Any CSV or TSV, or elements of XML, one record for every row.

    Other columns go to meta. Tabs, commas or semicolons are found in the first line.
    """


@_reads("formats.sets.xmi:xmi_records", "UIMA's XMI", "case.xmi --lang it -o cases.jsonl",
        "case.xmi --rejects lost.jsonl", folders=True)
def xmi() -> None:
    """UIMA's XMI of WebAnno, as E3C is published, one record for every file.

    The type of an entity is the name of its layer, such as CLINENTITY, EVENT or TIMEX3. Its
    features are in attributes, its concept in identifier. Links between annotations become
    relations.
    """
