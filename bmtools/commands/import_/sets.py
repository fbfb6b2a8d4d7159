"""Formats of annotated sets.

The docstring of each function is the help of its command, and its options are arguments of its
reader.
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
    help="closest pairs each mention of the related concept with more mentions with the closest "
         "mention of the other. biobit does so only if the head is first. all makes all pairs.")


def _takes_tables(name: str, parameter: str, required: bool = False, help: str = "") -> Decorator:
    """Return an option for tables of annotations, which may be repeated."""
    return click.option(f"--{name}", parameter, multiple=True, required=required, metavar="FILE",
                        type=InputFile(allow_dash=False),
                        help=f"{help or f'Tab-separated table of {name}.'} May be repeated.")


def _takes_default_type(default: str, help: str) -> Decorator:
    return click.option("--default-type", default=default, show_default=True, metavar="NAME",
                        help=help)


@_reads("formats.sets.bioasq:bioasq_records", "JSON of BioASQ's task B",
        "bioasq.json --type factoid -o factoid.jsonl", "bioasq.json --type yesno -o yesno.jsonl")
@click.option("--type", type=Choice(get_args(QuestionType)), required=True,
              help="Type of the questions.")
def bioasq() -> None:
    """Read the questions of one type from BioASQ's original files.

    For factoid and list questions, every snippet is a record. Its answers are the spellings of the
    exact answer that it contains, and meta.exact_answer has all spellings. meta.question is the
    question; score-tasks --task factoid merges the answers of all its snippets. For yes/no and
    summary questions, every question is a record. Its text is the snippets, and its answer is label
    or meta.ideal_answer.
    """


@_reads("tables:table_records", "TSV of yesno_label, question and ideal_answer",
        "yesno.tsv -o yesno.jsonl", "yesno.tsv --lang en", config=BIOASQ_YESNO)
def bioasq_yesno() -> None:
    """Read BioASQ's yes/no questions about ideal answers, as TSV.

    bioasq --type yesno reads BioASQ's original files.
    """


@_reads("formats.sets.bioasq:biobit_records", "JSON of lists by split",
        "biobit.json --split train --lang it -o train.jsonl",
        "biobit.json --split dev --lang it -o dev.jsonl")
@click.option("--split", required=True, metavar="NAME", help="Split to read: train, dev, test.")
def biobit_qa() -> None:
    """Read one split of BioBIT's Italian BioASQ questions.

    The splits have questions in common, which split --check counts.
    """


@_reads("formats.sets.chemprot:biored_records", "BioBIT's JSON of texts",
        "texts.json --entities concepts.txt --relations related.txt -o train.jsonl",
        "texts.json --entities concepts.txt --relations related.txt --mention-pairs all")
@_takes_tables("entities", "entity_files", required=True)
@_takes_tables("relations", "relation_files", required=True)
@_takes_mention_pairs
def biored() -> None:
    """Read BioBIT's Italian BioRED, one record for every abstract.

    A mention that is not at its offset moves to its nearest occurrence. Relations between concepts
    become relations between pairs of mentions. Lost annotations are counted, and collected with
    --rejects. To read the original BioRED, use import pubtator.
    """


@_reads("tables:table_records", "TSV of sentence1, sentence2 and score",
        "biosses.tsv -o biosses.jsonl", "biosses.tsv --lang en", config=BIOSSES)
def biosses() -> None:
    """Read BIOSSES, pairs of sentences with their similarity under score."""


@_reads("formats.sets.brat:brat_records", "Folders of .txt and .ann", "brat -o records.jsonl",
        "brat --labels codes.tsv", folders=True)
@_takes_tables("labels", "label_files", help="Table of document and label, separated by tabs, for "
               "labels; documents that are not listed have no labels.")
def brat() -> None:
    """Read BRAT texts with their annotations, one record for every text.

    Entities may have several parts. Events, relations between them, attributes, normalisations and
    notes are kept under meta.brat, unless they refer to a lost annotation. Codes in normalisations
    and notes are also the identifier of their entity. A mention that is not at its offset moves to
    its nearest occurrence. If texts and annotations are in separate folders, name the folder of
    annotations first.
    """


@_reads("formats.sets.chemprot:chemprot_records",
        "Tab-separated abstracts, BioBIT's JSON, or SciBERT's JSON Lines",
        "abstracts.tsv --entities entities.tsv --relations relations.tsv -o train.jsonl",
        "marked.jsonl")
@_takes_tables("entities", "entity_files")
@_takes_tables("relations", "relation_files")
@click.option("--genes", type=Choice(get_args(Genes)), default="keep", show_default=True,
              help="Keep the types GENE-Y and GENE-N, or merge them to GENE.")
@click.option("--relation-types", type=Choice(get_args(RelationTypes)), default="group",
              show_default=True,
              help="Type of relations: their group, such as CPR:4, or label, such as INHIBITOR.")
@_takes_default_type("ENTITY", "Type of entities in SciBERT's layout, which has no types.")
def chemprot() -> None:
    """Read ChemProt as published by BioCreative VI, BioBIT or SciBERT.

    From the three files of BioCreative or BioBIT, every abstract becomes a record. The type of a
    relation is its group, and its label is stored under label. A mention that is not at its offset
    moves to its nearest occurrence. Lost mentions and relations are counted, and collected with
    --rejects. Without --entities and --relations, sentences marked with << a >> and [[ b ]] are
    read, with one relation each.

    The relations of BioBIT's Italian files seem to refer to the English entities, which have other
    numbers: 47 % of the relations in train join a chemical and a gene, in English 100 %.
    """


@_reads("formats.sets.conll:conll_records", "CoNLL columns", "train.tsv --lang it -o train.jsonl",
        "train.tsv --default-type DISEASE --documents")
@takes_settings(ConllConfig, "config")
def conll() -> None:
    """Read CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.

    The text consists of the tokens separated by one space.
    """


@_reads("formats.sets.curated:curated_records", "JSON of curated sentences",
        "curated.json -o curated.jsonl", "curated.json --unmasked")
@click.option("--unmasked", is_flag=True,
              help="One record for every unmasked sentence, for score-pppl.")
@click.option("--windows", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Also write maskings of longer texts with 1 to N lines before and after them, "
                   "for score-mrr --by window.")
def curated() -> None:
    """Read BioBIT's curated maskings, one record with text and target for each."""


@_reads("formats.sets.ddi:ddi_records", "XML of DDI-2013",
        "DDICorpus-2013.zip/DDICorpus/Train -o train.jsonl",
        "DDICorpus-2013.zip --default-type int --rejects lost.jsonl", folders=True)
@_takes_default_type("int", "Type of interacting pairs without a type.")
def ddi() -> None:
    """Read drug-drug interactions of DDI-2013, one record for every sentence.

    Pairs that interact become relations. All other pairs of a sentence's entities are false pairs.
    The corpus's zip archive can be read directly; give a path inside it to read one part.
    meta.document is the document.
    """


@_reads("formats.sets.ebm_nlp:ebm_nlp_records", "EBM-NLP's documents and annotations",
        "ebm_nlp_2_00 --split train -o train.jsonl",
        "ebm_nlp_2_00.tar.gz --split test/gold -o test.jsonl", archives=True)
@click.option("--split", type=Choice(("train", "test/gold", "test/crowd")), required=True,
              help="Split to read.")
def ebm_nlp() -> None:
    """Read participants, interventions and outcomes of EBM-NLP, one record for every sentence.

    Entities of the types PAR, INT and OUT may overlap; finetune pico --set overlapping=true learns
    all of them. meta.document is the abstract.
    """


@_reads("tables:table_records", "TSV of sentence and label", "gad.tsv -o train.jsonl",
        "gad.tsv --source GAD", config=GAD, headless=("sentence", "label"))
def gad() -> None:
    """Read GAD and EU-ADR, sentences with @GENE$ and @DISEASE$ and the label 0 or 1.

    The first line may contain column names, as in test.tsv, or not, as in train.tsv.
    """


@_reads("formats.sets.hoc:hoc_records", "Folders text/ and labels/, or BLUE's TSV",
        "hoc.tsv -o hoc.jsonl", "hoc-original.tar.gz --documents -o hoc.jsonl", archives=True)
@click.option("--documents", is_flag=True,
              help="One record for every abstract, with one sentence per line, as in BLURB.")
def hoc() -> None:
    """Read Hallmarks of Cancer, one record for every sentence, with its hallmarks under labels.

    meta.document is the abstract. meta.label_paths contains the archive's finer classes.
    """


@_reads("formats.sets.i2b2:i2b2_2010_records", "Folders of .txt, .con, .rel and .ast",
        "i2b2-2010 -o train.jsonl", "i2b2-2010 --rejects lost.jsonl", folders=True)
def i2b2_2010() -> None:
    """Read concepts, assertions and relations of i2b2 2010, one record for every text.

    Files with the same name belong together, even in different folders.
    """


@_reads("formats.sets.i2b2:i2b2_xml_records", "XML of i2b2 2012 or 2014",
        "i2b2.xml -o train.jsonl", "i2b2.xml --rejects lost.jsonl", folders=True)
def i2b2_xml() -> None:
    """Read events and times of i2b2 2012 or identifiers of 2014, one record for every file.

    Links of 2012 become relations.
    """


@_reads("formats.sets.nli:nli_records", "JSON Lines of sentence1, sentence2 and gold_label",
        "nli.jsonl -o train.jsonl", "nli.jsonl --source MedNLI")
def nli() -> None:
    """Read MedNLI and other sets in SNLI's form, one record for every pair of sentences."""


@_reads("formats.sets.pubmedqa:pubmedqa_records", "JSON of PubMedQA",
        "pubmedqa.json --ids test_ground_truth.json -o test.jsonl",
        "pubmedqa.json --without-ids test_ground_truth.json -o train.jsonl")
@click.option("--ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Read only the questions of these PMIDs: keys of JSON, or one per line.")
@click.option("--without-ids", metavar="FILE", type=InputFile(allow_dash=False),
              help="Leave out the questions of these PMIDs.")
def pubmedqa() -> None:
    """Read PubMedQA, one record for every question, with the label yes, no or maybe.

    The text is the abstract without its conclusion, which is stored in meta.long_answer.
    """


@_reads("formats.sets.pubtator:pubtator_records", "PubTator's lines",
        "pubtator.txt -o train.jsonl", "pubtator.txt --mention-pairs all")
@_takes_mention_pairs
def pubtator() -> None:
    """Read PubTator's lines, the format of BioRED and BC5CDR, one record for every document.

    The text is the title, a space and the abstract. Relations between concepts become relations
    between pairs of mentions. A mention that is not at its offset moves to its nearest occurrence.
    """


@_reads("formats.sets.squad:squad_records", "JSON of SQuAD's form", "squad.json -o train.jsonl",
        "squad.json --lang en")
def squad() -> None:
    """Read SQuAD of both versions, or BioASQ in SQuAD's form, one record for every question.

    An answer that is not at its offset moves to its nearest occurrence. Answers that the text does
    not contain are counted, and collected with --rejects. answers is empty if there is no answer.
    """


@_reads("formats.sets.standoff:standoff_records", "Lines of id|text",
        "texts.txt --annotations mentions.txt",
        "texts.txt --annotations mentions.txt --rejects lost.jsonl")
@_takes_tables("annotations", "annotations", True, "Mentions: id, start, end, text and type, "
               "separated by tabs, optionally with T or A after the id.")
def standoff() -> None:
    """Read lines of id|text, with mentions in a separate file.

    A mention that is not at its offset moves to its nearest occurrence. Mentions without an
    occurrence are counted, and collected with --rejects; their texts are kept.
    """


@_reads("tables:table_records", "CSV or TSV",
        "notes.csv --columns text=note,id=number -o notes.jsonl",
        "pairs.tsv --columns text=1,text_pair=2,label=3 --set header=no")
@takes_settings(TableConfig, "config")
def table() -> None:
    """Read any CSV, TSV or XML elements, one record for every row.

    Other columns go to meta. The first line shows whether tabs, commas or semicolons separate the
    columns.
    """


@_reads("formats.sets.xmi:xmi_records", "UIMA's XMI", "case.xmi --lang it -o cases.jsonl",
        "case.xmi --rejects lost.jsonl", folders=True)
def xmi() -> None:
    """Read UIMA's XMI from WebAnno, the format of E3C, one record for every file.

    The type of an entity is the name of its layer, such as CLINENTITY, EVENT or TIMEX3. Its
    features are stored under attributes, its concept under identifier. Links between annotations
    become relations.
    """
