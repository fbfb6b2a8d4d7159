"""`bmtools import` of questions to texts, and of pairs of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.commands.import_.importing import imports, source_format
from bmtools.corpus.choices import QuestionType
from bmtools.errors import Reject
from bmtools.records import Record

_ids_file = click.Path(exists=True, dir_okay=False)


@source_format("squad", "JSON of SQuAD's form", "", "squad.json -o train.jsonl",
               "squad.json --lang en")
@imports
def squad(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """SQuAD of both versions, and BioASQ in its form, one record for every question.

    An answer that is not at its offset moves to its nearest occurrence; one that the text does not
    contain is counted, and collected under --rejects. answers is empty where there is none.
    """
    from bmtools.corpus.formats.sets.squad import squad_records

    return squad_records(files, counts, reject)


@source_format("bioasq", "JSON of BioASQ's task B", "type",
               "bioasq.json --type factoid -o factoid.jsonl",
               "bioasq.json --type yesno -o yesno.jsonl")
@click.option("--type", "question_type", type=Choice(get_args(QuestionType)), required=True,
              help="Type of the questions.")
@imports
def bioasq(files: tuple[str, ...], question_type: QuestionType, counts: Counter[str],
           reject: Reject) -> Iterator[Record]:
    """BioASQ's own files, the questions of one type.

    Of factoid and list questions every snippet is a record, whose answers are the spellings of the
    exact answer that it contains; meta.exact_answer has all of them, and meta.question is the
    question, over whose snippets score-tasks --task factoid merges. The text of a yes/no or summary
    question is its snippets, and its answer is label or meta.ideal_answer.
    """
    from bmtools.corpus.formats.sets.bioasq import bioasq_records

    return bioasq_records(files, question_type, counts, reject)


@source_format("biobit-qa", "JSON of lists by split", "split",
               "biobit.json --split train --lang it -o train.jsonl",
               "biobit.json --split dev --lang it -o dev.jsonl")
@click.option("--split", required=True, metavar="NAME", help="Split to read: train, dev, test.")
@imports
def biobit_qa(files: tuple[str, ...], split: str, counts: Counter[str],
              reject: Reject) -> Iterator[Record]:
    """BioBIT's Italian BioASQ questions, one split of them.

    What repeats is counted: records, and questions that other splits have, too.
    """
    from bmtools.corpus.formats.sets.bioasq import biobit_records

    return biobit_records(files, split, counts, reject)


@source_format("pubmedqa", "JSON of PubMedQA", "ids without-ids",
               "pubmedqa.json --ids test_ground_truth.json -o test.jsonl",
               "pubmedqa.json --without-ids test_ground_truth.json -o train.jsonl")
@click.option("--ids", metavar="FILE", type=_ids_file,
              help="Take the questions of these PMIDs alone: keys of JSON, or one a line.")
@click.option("--without-ids", metavar="FILE", type=_ids_file,
              help="Leave the questions of these PMIDs out.")
@imports
def pubmedqa(files: tuple[str, ...], ids: str | None, without_ids: str | None,
             counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """PubMedQA, one record for every question, with label yes, no or maybe.

    The text is the abstract without its conclusion, which is meta.long_answer.
    """
    from bmtools.corpus.formats.sets.pubmedqa import pubmedqa_records, read_ids

    return pubmedqa_records(files, read_ids(ids) if ids else None,
                            read_ids(without_ids) if without_ids else (), reject)


@source_format("nli", "JSON Lines of sentence1, sentence2 and gold_label", "",
               "nli.jsonl -o train.jsonl", "nli.jsonl --source MedNLI")
@imports
def nli(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """MedNLI and other sets of SNLI's form, one record for every pair of sentences."""
    from bmtools.corpus.formats.sets.nli import nli_records

    return nli_records(files, counts, reject)
