"""Formats of texts, whose files are divided among workers; see `sets`."""

from __future__ import annotations

from functools import partial

import click

from bmtools.cli.options import usage_errors
from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import reads
from bmtools.corpus.formats.settings import COLUMNS, JatsConfig, read_columns

FORMATS: dict[str, click.Command] = {}
_reads = partial(reads, FORMATS, is_text=True)
_reads_documents = partial(_reads, archives=True, shares_folders=True)


def _check_columns(ctx: click.Context, _param: click.Parameter, columns: str) -> str:
    with usage_errors(ctx):
        read_columns(columns)
    return columns


_takes_columns = click.option(
    "--columns", default="id=id,text=text", show_default=True, metavar="KEY=NAME,...",
    callback=_check_columns, help=f"Names in the files by the record key that each fills: "
                                  f"{', '.join(COLUMNS)}.")


@_reads_documents("formats.texts.epub:epub_records", "EPUB", "book.epub -o book.jsonl",
                  "book.epub --sentences --lang it")
def epub() -> None:
    """Read the text of EPUB books, one record for each book, with one paragraph per line.

    meta.sections has the offsets of chapters, in reading order.
    """


@_reads_documents("formats.texts.web:html_records", "HTML pages", "pages -o pages.jsonl",
                  "page.html --lang it")
def html() -> None:
    """Read the main text of HTML pages without navigation, one record for each page.

    Title, language, licence and date are read from the page, without any download.
    """


@_reads("formats.texts.json_lines:jsonl_records", "JSON Lines",
        "other.jsonl --columns text=abstract -o notes.jsonl",
        "other.jsonl --columns id=pmid,text=abstract --lang en")
@_takes_columns
def jsonl() -> None:
    """Read JSON Lines of other programs, renaming keys to those of records.

    Numbers in id become text, a missing id becomes FILE:LINE, and other keys are kept. If the text
    key is missing, tokens with ner_tags, BigBIO documents and questions with choices are read.
    """


@_reads("formats.texts.mimic:mimic_records", "NOTEEVENTS.csv, discharge.csv or radiology.csv of "
        "MIMIC", "NOTEEVENTS.csv.gz --kinds Physician -o notes.jsonl",
        "NOTEEVENTS.csv.gz --kinds 'Discharge summary,Physician' --marks '[MARK]'")
@click.option("--kinds", default="", metavar="KIND,...",
              help="Read only notes of these kinds: CATEGORY of MIMIC-III, note type of MIMIC-IV.")
@click.option("--marks", metavar="TEXT",
              help="Text that replaces de-identification marks, [**...**] and ___.")
def mimic() -> None:
    """Read notes of MIMIC-III or MIMIC-IV-Note, one record for each note.

    Columns are found by name. meta has kind, patient, admission and date. Notes that are marked as
    errors are left out.
    """


@_reads("formats.texts.arrow:parquet_records", "Parquet", "notes.parquet -o notes.jsonl",
        "notes.parquet --columns id=number,text=note", archives=True)
@_takes_columns
def parquet() -> None:
    """Read Parquet files, one record for each row.

    Columns are used like the keys in import jsonl. Bytes under keys of records are UTF-8. Other
    columns of bytes, such as images, are left out.
    """


@_reads_documents("formats.texts.pdf:pdf_records", "PDF", "article.pdf -o article.jsonl",
                  "articles --rejects unread.jsonl -o articles.jsonl")
def pdf() -> None:
    """Read the text of PDFs, one record for each file, with one paragraph per line.

    Running heads, feet and page numbers are left out, and divided words are joined. meta.sections
    has the offsets of pages. Images are not read.
    """


@_reads("formats.texts.jats:jats_records", "JATS or NLM XML of PMC and publishers",
        "article.nxml -o articles.jsonl",
        "article.nxml --include captions,back --account", archives=True,
        account="formats.texts.jats:jats_account")
@takes_settings(JatsConfig, "config")
def pmc() -> None:
    """Read full text in JATS, PMC's XML, one record for every article.

    Headings, paragraphs and list items are separated by a blank line. meta.sections lists the
    sections with their depth, path and offsets. Tables, references and footnotes are left out.
    Licences get their SPDX names. Archives (.tar.gz) are streamed without unpacking them to disk.
    """


@_reads("formats.texts.pubmed:pubmed_records", "XML of PubMed or MEDLINE",
        "pubmed.xml.gz -o abstracts.jsonl", "pubmed*.xml.gz --titles --sentences",
        account="formats.texts.pubmed:pubmed_account")
@click.option("--titles", is_flag=True,
              help="Use titles as texts of citations without abstract; default: leave them out.")
@click.option("--other-abstracts", is_flag=True,
              help="Also write abstracts in further languages, as PMID-LANG.")
def pubmed() -> None:
    """Read PubMed and MEDLINE XML, one record for every abstract.

    PubMed's abstracts are always in English, so lang is en, and meta.languages has the article's
    languages. Each part of a structured abstract is a line that begins with its label, and
    meta.sections has the offsets. Titles that PubMed translated lose their brackets.

    Give the newest update file first and use --duplicates drop, so that each PMID keeps its newest
    version. PMIDs that a file deletes are counted.
    """


@_reads("formats.texts.plain_text:text_records", "UTF-8 text",
        "notes.txt --lang it -o notes.jsonl", "notes.txt --paragraphs --sentences --lang it",
        account="formats.texts.plain_text:text_account")
@click.option("--paragraphs", "unit", flag_value="paragraph",
              help="One record for every paragraph; a blank line ends a paragraph.")
@click.option("--whole-files", "unit", flag_value="file", help="One record for every file.")
def text() -> None:
    """Read plain text, one record for every line that is not blank.

    Ids consist of file name and line number.
    """


@_reads("formats.texts.web:warc_records", "WARC", "crawl.warc.gz -o pages.jsonl",
        "crawl.warc.gz --rejects damaged.jsonl", archives=True)
def warc() -> None:
    """Read the main text of HTML pages in WARC archives, one record for each page.

    meta has the address and the time of download. Other records, content types and responses are
    counted.
    """
