"""`bmtools import`: one subcommand for every source format."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import click

from bmtools.cli.closing import after_import
from bmtools.cli.help import Choice, Group
from bmtools.cli.options import (
    Command,
    allows_empty,
    sources,
    takes_files,
    takes_rejects,
    usage_errors,
    writes_records,
)
from bmtools.cli.results import finish, write_stream
from bmtools.corpus.duplicates import Duplicates, with_unique_ids
from bmtools.corpus.plain_text import Unit
from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.jsonl import refuse_empty
from bmtools.records import Record, check

Reader = Callable[..., Iterator[Record]]


@click.group("import", cls=Group, examples=(
    "bmtools import text notes.txt --lang it -o notes.jsonl",
    "bmtools import pubmed pubmed.xml.gz | bmtools build-vocab --allow-fewer -o words"))
def command() -> None:
    """Turn biomedical source formats into records.

    Name a format, then files; "-" or nothing means stdin, and gzip or zstd is undone. Records go
    to stdout as JSON Lines, omissions are counted on stderr. Sources without a single record are
    an error, unless --allow-empty is given.
    """


def imports(read: Reader) -> Callable[..., None]:
    """Make a command of a function that yields records.

    It gets `files`, `counts` and `reject` beside its own options. The rest is the same for every
    format: keys set by hand, the check of every record, duplicate ids, sentences, output.
    """

    @takes_files
    @click.option("--sentences", is_flag=True,
                  help="One record for every sentence, as ID-s1, ID-s2; needs a language.")
    @click.option("--lang", metavar="CODE", help="Set lang, as in ISO 639-1: it, en.")
    @click.option("--source", metavar="TEXT", help="Set source.")
    @click.option("--licence", metavar="TEXT", help="Set licence.")
    @click.option("--duplicates", type=Choice(get_args(Duplicates)),
                  default="refuse", show_default=True,
                  help="What to do with a record whose id came before.")
    @allows_empty
    @takes_rejects
    @writes_records
    @functools.wraps(read)
    def run(files: tuple[str, ...], sentences: bool, lang: str | None, source: str | None,
            licence: str | None, duplicates: Duplicates, allow_empty: bool, reject: Reject,
            output: str, **options: Any) -> None:
        counts: Counter[str] = Counter()
        keys = {"lang": lang, "source": source, "licence": licence}
        given = {key: value for key, value in keys.items() if value is not None}
        names = sources(files)
        records = read(files=names, counts=counts, reject=reject, **options)
        records = _checked((record.replace(**given) for record in records), reject)
        records = with_unique_ids(records, duplicates, counts, reject)
        if sentences:
            from bmtools.corpus.sentences import sentence_records

            records = sentence_records(records, counts, reject)
        records = _not_empty(records, names, allow_empty, counts)
        written = write_stream(records, output, "importing")
        finish(*after_import(written, counts, output))

    return run


def _totals(counts: Counter[str]) -> list[str]:
    return [f"{name}: {count}" for name, count in counts.items() if count]


def _not_empty(records: Iterator[Record], names: Sequence[str], allow_empty: bool,
               counts: Counter[str]) -> Iterator[Record]:
    """Refuse sources without a record at their end, and say what was left out of them."""
    is_empty = True
    for record in records:
        is_empty = False
        yield record
    if is_empty:
        left_out = "; ".join(_totals(counts))
        refuse_empty(names, allow_empty, f"records ({left_out})" if left_out else "records")


def _checked(records: Iterator[Record], reject: Reject) -> Iterator[Record]:
    for record in records:
        try:
            check(record)
        except RecordError as error:
            reject(error)
            continue
        yield record


def _format(name: str, content: str, options: str, *examples: str) -> Callable[..., click.Command]:
    """Make the decorator of a format's function.

    Args:
        name: of the format.
        content: of its files, for help.
        options: its own, in the order of help.
        examples: arguments that run.
    """
    return command.command(
        name, cls=Command, examples=[f"bmtools import {name} {example}" for example in examples],
        groups={"Records": f"{options} sentences duplicates",
                "Keys of all records": "lang source licence"},
        meanings={"files": f"{content}, plain, .gz or .zst; none or - means stdin.",
                  "output": "Write the records here; .gz and .zst compress."}, topics="records")


@_format("pubmed", "XML of PubMed or MEDLINE", "titles other-abstracts",
         "pubmed.xml.gz -o abstracts.jsonl",
         "pubmed.xml.gz --sentences --duplicates drop")
@click.option("--titles", is_flag=True,
              help="Take the title as text where there is no abstract; otherwise none is written.")
@click.option("--other-abstracts", is_flag=True,
              help="Write abstracts in further languages too, as PMID-LANG.")
@imports
def pubmed(files: tuple[str, ...], titles: bool, other_abstracts: bool, counts: Counter[str],
           reject: Reject) -> Iterator[Record]:
    """PubMed and MEDLINE XML, one record for every abstract.

    The abstract is English whatever the article is, so lang is en and meta.languages keeps the
    article's. The parts of a structured abstract come one a line behind their labels, and
    meta.sections gives their offsets. Titles in brackets, which PubMed translated, lose them.
    """
    from bmtools.corpus.pubmed import pubmed_records

    return pubmed_records(files, titles, other_abstracts, counts, reject)


@_format("conll", "CoNLL columns", "token-column tag-column default-type documents",
         "train.tsv --lang it -o train.jsonl",
         "train.tsv --default-type DISEASE --documents")
@click.option("--token-column", type=click.IntRange(min=1), default=1, show_default=True,
              help="Column of the token, counted from 1.")
@click.option("--tag-column", type=click.IntRange(min=1), show_default="last",
              help="Column of the tag, counted from 1.")
@click.option("--default-type", default="ENTITY", show_default=True, metavar="NAME",
              help="Type of entities whose tags name none.")
@click.option("--documents", is_flag=True,
              help="One record for every -DOCSTART- line, its sentences a line each.")
@imports
def conll(files: tuple[str, ...], token_column: int, tag_column: int | None, default_type: str,
          documents: bool, counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.

    The text is the tokens with one space between them.
    """
    from bmtools.corpus.conll import ConllConfig, conll_records

    with usage_errors():
        config = ConllConfig(token_column, tag_column or 0, default_type, documents)
    return conll_records(files, config, counts, reject)


@_format("standoff", "Lines of id|text", "annotations",
         "texts.txt --annotations mentions.txt",
         "texts.txt --annotations mentions.txt --rejects lost.jsonl")
@click.option("--annotations", multiple=True, required=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False),
              help="Mentions: id, start, end, text, type by tab, with T or A after the id or "
                   "without. May be given again.")
@imports
def standoff(files: tuple[str, ...], annotations: tuple[str, ...], counts: Counter[str],
             reject: Reject) -> Iterator[Record]:
    """Lines of id|text, with mentions in a file of their own.

    A mention that is not at its offset moves to its nearest occurrence. One that occurs nowhere is
    counted, and collected under --rejects; its text stays.
    """
    from bmtools.corpus.standoff import standoff_records

    lose = None if reject is refuse else reject
    return standoff_records(files, annotations, counts, reject, lose)


@_format("curated", "JSON of curated sentences", "unmasked",
         "curated.json -o curated.jsonl",
         "curated.json --unmasked")
@click.option("--unmasked", is_flag=True,
              help="One record for every sentence, unmasked, for score-pppl.")
@imports
def curated(files: tuple[str, ...], counts: Counter[str], reject: Reject,
            unmasked: bool) -> Iterator[Record]:
    """BioBIT's curated maskings, one record with text and target for each."""
    from bmtools.corpus.curated import curated_records, unmasked_records

    return (unmasked_records if unmasked else curated_records)(files, reject)


@_format("text", "UTF-8 text", "paragraphs whole-files",
         "notes.txt --lang it -o notes.jsonl",
         "notes.txt --paragraphs --sentences --lang it")
@click.option("--paragraphs", "unit", flag_value="paragraph",
              help="One record for every paragraph; a blank line ends it.")
@click.option("--whole-files", "unit", flag_value="file", help="One record for every file.")
@imports
def text(files: tuple[str, ...], unit: Unit | None, counts: Counter[str],
         reject: Reject) -> Iterator[Record]:
    """Plain text, one record for every line that is not blank.

    Ids are the name of the file and the number of the line.
    """
    from bmtools.corpus.plain_text import text_records

    return text_records(files, unit or "line")


@_format("jsonl", "JSON Lines", "id-key text-key",
         "other.jsonl --text-key abstract -o notes.jsonl",
         "other.jsonl --id-key pmid --text-key abstract --lang en")
@click.option("--id-key", default="id", show_default=True, metavar="KEY",
              help="Key of the id.")
@click.option("--text-key", default="text", show_default=True, metavar="KEY",
              help="Key of the text.")
@imports
def jsonl(files: tuple[str, ...], id_key: str, text_key: str, counts: Counter[str],
          reject: Reject) -> Iterator[Record]:
    """Foreign JSON Lines, under the keys that commands agree on.

    Numbers in id become text, a missing id becomes FILE:LINE, other keys pass through.
    """
    from bmtools.corpus.other_jsonl import jsonl_records

    return jsonl_records(files, id_key, text_key, counts, reject)
