"""`bmtools import bioasq`."""

from functools import partial
from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.commands.import_.importing import Reader, imports, source_format
from bmtools.corpus.formats.settings import QuestionType


@source_format("JSON of BioASQ's task B", "type", "bioasq.json --type factoid -o factoid.jsonl",
               "bioasq.json --type yesno -o yesno.jsonl")
@click.option("--type", "question_type", type=Choice(get_args(QuestionType)), required=True,
              help="Type of the questions.")
@imports
def command(question_type: QuestionType) -> Reader:
    """BioASQ's own files, the questions of one type.

    Of factoid and list questions every snippet is a record, whose answers are the spellings of the
    exact answer that it contains; meta.exact_answer has all of them, and meta.question is the
    question, over whose snippets score-tasks --task factoid merges. The text of a yes/no or summary
    question is its snippets, and its answer is label or meta.ideal_answer.
    """
    from bmtools.corpus.formats.sets.bioasq import bioasq_records

    return partial(bioasq_records, type=question_type)
