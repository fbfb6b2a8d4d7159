"""Formats of `bmtools import` without options of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

import click

from bmtools.commands.import_.importing import (
    Reader,
    Source,
    imports,
    imports_texts,
    source_format,
)
from bmtools.corpus.formats.settings import BIOASQ_YESNO, BIOSSES, GAD


class _Format(NamedTuple):
    """A format whose command has only the options of all formats.

    Args:
        reader: `module:function` in `bmtools.corpus`.
        content: of its files, for help.
        examples: arguments that run.
        help: of the command, behind its first sentence.
        folders: whether files also come in folders and zip archives.
        archives: whether they come in these and in tar archives.
        is_text: whether it is read file by file, by workers.
        shares_folders: whether workers share the files of a folder.
        settings: further arguments of the reader.
    """

    reader: str
    content: str
    examples: tuple[str, str]
    help: str = ""
    folders: bool = False
    archives: bool = False
    is_text: bool = False
    shares_folders: bool = False
    settings: Mapping[str, object] = MappingProxyType({})


_document = partial(_Format, archives=True, is_text=True, shares_folders=True)
PLAIN = {
    "bioasq-yesno": _Format(
        "tables:table_records", "TSV of yesno_label, question and ideal_answer",
        ("yesno.tsv -o yesno.jsonl", "yesno.tsv --lang en"),
        "bioasq --type yesno reads BioASQ's own files.", settings={"config": BIOASQ_YESNO}),
    "biosses": _Format(
        "tables:table_records", "TSV of sentence1, sentence2 and score",
        ("biosses.tsv -o biosses.jsonl", "biosses.tsv --lang en"), settings={"config": BIOSSES}),
    "brat": _Format(
        "formats.sets.brat:brat_records", "Folders of .txt and .ann",
        ("brat -o records.jsonl", "brat/1.ann"),
        "Entities may be in parts. Events, attributes, normalisations and notes stay under "
        "meta.brat. A mention that is not at its offset moves to its nearest occurrence.",
        folders=True),
    "epub": _document(
        "formats.texts.epub:epub_records", "EPUB",
        ("book.epub -o book.jsonl", "book.epub --sentences --lang it"),
        "meta.sections has the offsets of chapters, in the order of reading."),
    "gad": _Format(
        "tables:table_records", "TSV of sentence and label",
        ("gad.tsv -o train.jsonl", "gad.tsv --source GAD"),
        "The first line may name the columns, as in test.tsv, or not, as in train.tsv.",
        settings={"config": GAD, "headless": ("sentence", "label")}),
    "hoc": _Format(
        "formats.sets.hoc:hoc_records", "Folders text/ and labels/, or BLUE's TSV",
        ("hoc.tsv -o hoc.jsonl", "hoc-original.tar.gz -o hoc.jsonl"),
        "meta.document is the abstract, meta.label_paths the finer classes of the archive.",
        archives=True),
    "html": _document(
        "formats.texts.web:html_records", "HTML pages",
        ("pages -o pages.jsonl", "page.html --lang it"),
        "Title, language, licence and date are what the page states. Nothing is fetched."),
    "i2b2-2010": _Format(
        "formats.sets.i2b2:i2b2_2010_records", "Folders of .txt, .con, .rel and .ast",
        ("i2b2-2010 -o train.jsonl", "i2b2-2010 --rejects lost.jsonl"),
        "Files of one name belong together, whatever folders they are in.", folders=True),
    "i2b2-xml": _Format(
        "formats.sets.i2b2:i2b2_xml_records", "XML of i2b2 2012 or 2014",
        ("i2b2.xml -o train.jsonl", "i2b2.xml --rejects lost.jsonl"),
        "Links of 2012 become relations.", folders=True),
    "nli": _Format(
        "formats.sets.nli:nli_records", "JSON Lines of sentence1, sentence2 and gold_label",
        ("nli.jsonl -o train.jsonl", "nli.jsonl --source MedNLI")),
    "pdf": _document(
        "formats.texts.pdf:pdf_records", "PDF",
        ("article.pdf -o article.jsonl", "articles --rejects unread.jsonl -o articles.jsonl"),
        "Running heads, feet and page numbers are left out, divided words joined. meta.sections "
        "has the offsets of pages. Images are not read."),
    "squad": _Format(
        "formats.sets.squad:squad_records", "JSON of SQuAD's form",
        ("squad.json -o train.jsonl", "squad.json --lang en"),
        "An answer that is not at its offset moves to its nearest occurrence; one that the text "
        "does not contain is counted, and collected under --rejects. answers is empty where there "
        "is none."),
    "warc": _Format(
        "formats.texts.web:warc_records", "WARC",
        ("crawl.warc.gz -o pages.jsonl", "crawl.warc.gz --rejects damaged.jsonl"),
        "meta has the address and the time of download. Other records, types and answers are "
        "counted.", archives=True, is_text=True),
}


@cache
def plain_command(name: str, summary: str) -> click.Command:
    """Make the command of a format.

    Args:
        name: of the format.
        summary: the first sentence of its help.
    """
    form = PLAIN[name]
    folders = form.folders or form.archives

    def make_reader() -> Reader:
        module, function = form.reader.split(":")
        return partial(getattr(import_module(f"bmtools.corpus.{module}"), function),
                       **form.settings)

    def make_source() -> Source:
        return Source(make_reader(), shares_folders=form.shares_folders)

    make_reader.__doc__ = make_source.__doc__ = f"{summary}\n\n{form.help}"
    return source_format(form.content, "", *form.examples, folders=form.folders,
                         archives=form.archives, name=name)(
        imports_texts(make_source, folders) if form.is_text else imports(make_reader, folders))
