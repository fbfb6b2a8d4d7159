"""`bmtools import` of texts: PubMed, plain text, foreign JSON Lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bmtools.commands.import_.importing import imports_texts, source_format
from bmtools.corpus.formats.texts.plain_text import Unit
from bmtools.errors import Reject
from bmtools.io.sources import STDIN
from bmtools.records import Record

if TYPE_CHECKING:
    from bmtools.corpus.formats.texts.pubmed_updates import NewestInFile


def _text_account(records: Iterator[Record], name: str, counts: Counter[str],
                  **_: Any) -> Iterator[Record]:
    from bmtools.corpus.account import accounted, line_pieces

    return accounted(records, line_pieces(name), name, counts)


def _pubmed_account(records: Iterator[Record], name: str, counts: Counter[str], updates: bool,
                    **options: Any) -> Iterator[Record]:
    from bmtools.corpus.formats.texts.pubmed_account import pubmed_account

    if updates:
        raise click.UsageError("--account: found --updates beside it, which leaves out whole "
                               "citations; account for the files first, then update")
    return pubmed_account(records, name, counts, **options)


def _pubmed_plan(names: Sequence[str], jobs: int, updates: bool,
                 **_: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    from bmtools.corpus.formats.texts.pubmed_updates import find_newest, in_order

    if not updates:
        yield from ((name, {}) for name in names)
        return
    if STDIN in names:
        raise click.UsageError("--updates: found stdin, which cannot be read twice, expected files")
    yield from ((newest.name, {"newest": newest}) for newest in find_newest(in_order(names), jobs))


@source_format("pubmed", "XML of PubMed or MEDLINE", "titles other-abstracts updates account",
         "pubmed.xml.gz -o abstracts.jsonl",
         "pubmed*.xml.gz --updates --sentences")
@click.option("--titles", is_flag=True,
              help="Take the title as text where there is no abstract; otherwise none is written.")
@click.option("--other-abstracts", is_flag=True,
              help="Write abstracts in further languages too, as PMID-LANG.")
@click.option("--updates", is_flag=True,
              help="Take the newest version of each PMID that no later file deletes, over baseline "
                   "and update files.")
@partial(imports_texts, account=_pubmed_account, plan=_pubmed_plan)
def pubmed(files: tuple[str, ...], titles: bool, other_abstracts: bool, updates: bool,
           counts: Counter[str], reject: Reject,
           newest: NewestInFile | None = None) -> Iterator[Record]:
    """PubMed and MEDLINE XML, one record for every abstract.

    The abstract is English whatever the article is, so lang is en and meta.languages keeps the
    article's. The parts of a structured abstract come one a line behind their labels, and
    meta.sections gives their offsets. Titles in brackets, which PubMed translated, lose them.
    """
    from bmtools.corpus.formats.texts.pubmed import file_records, pubmed_records

    if newest:
        return file_records(newest, titles, other_abstracts, counts, reject)
    return pubmed_records(files, titles, other_abstracts, False, counts, reject)


@source_format("text", "UTF-8 text", "paragraphs whole-files account",
         "notes.txt --lang it -o notes.jsonl",
         "notes.txt --paragraphs --sentences --lang it")
@click.option("--paragraphs", "unit", flag_value="paragraph",
              help="One record for every paragraph; a blank line ends it.")
@click.option("--whole-files", "unit", flag_value="file", help="One record for every file.")
@partial(imports_texts, account=_text_account)
def text(files: tuple[str, ...], unit: Unit | None, counts: Counter[str],
         reject: Reject) -> Iterator[Record]:
    """Plain text, one record for every line that is not blank.

    Ids are the name of the file and the number of the line.
    """
    from bmtools.corpus.formats.texts.plain_text import text_records

    return text_records(files, unit or "line")


@source_format("jsonl", "JSON Lines", "id-key text-key",
         "other.jsonl --text-key abstract -o notes.jsonl",
         "other.jsonl --id-key pmid --text-key abstract --lang en")
@click.option("--id-key", default="id", show_default=True, metavar="KEY",
              help="Key of the id.")
@click.option("--text-key", default="text", show_default=True, metavar="KEY",
              help="Key of the text.")
@imports_texts
def jsonl(files: tuple[str, ...], id_key: str, text_key: str, counts: Counter[str],
          reject: Reject) -> Iterator[Record]:
    """Foreign JSON Lines, under the keys that commands agree on.

    Numbers in id become text, a missing id becomes FILE:LINE, other keys pass through.
    """
    from bmtools.corpus.formats.texts.other_jsonl import jsonl_records

    return jsonl_records(files, id_key, text_key, counts, reject)
