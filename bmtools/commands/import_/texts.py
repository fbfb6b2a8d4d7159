"""Formats of texts, whose files workers share; see `sets`."""

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
    callback=_check_columns, help=f"Names in the files by the key that each fills: "
                                  f"{', '.join(COLUMNS)}.")


@_reads_documents("formats.texts.epub:epub_records", "EPUB", "book.epub -o book.jsonl",
                  "book.epub --sentences --lang it")
def epub() -> None:
    """Text of books in EPUB, one record for each, a paragraph a line.

    meta.sections has the offsets of chapters, in the order of reading.
    """


@_reads_documents("formats.texts.web:html_records", "HTML pages", "pages -o pages.jsonl",
                  "page.html --lang it")
def html() -> None:
    """Main text of HTML pages, one record for each, without navigation.

    Title, language, licence and date are what the page states. Nothing is fetched.
    """


@_reads("formats.texts.json_lines:jsonl_records", "JSON Lines",
        "other.jsonl --columns text=abstract -o notes.jsonl",
        "other.jsonl --columns id=pmid,text=abstract --lang en")
@_takes_columns
def jsonl() -> None:
    """Foreign JSON Lines, under the keys that commands agree on.

    Numbers in id become text, a missing id becomes FILE:LINE, other keys pass through. Without the
    key of the text, tokens with ner_tags, documents of BigBIO, and questions with choices are
    read.
    """


@_reads("formats.texts.mimic:mimic_records", "NOTEEVENTS.csv, discharge.csv or radiology.csv of "
        "MIMIC", "NOTEEVENTS.csv.gz --kinds Physician -o notes.jsonl",
        "NOTEEVENTS.csv.gz --kinds 'Discharge summary,Physician' --marks '[MARK]'")
@click.option("--kinds", default="", metavar="KIND,...",
              help="Take notes of these kinds alone: CATEGORY of MIMIC-III, note type of MIMIC-IV.")
@click.option("--marks", metavar="TEXT",
              help="Put this in place of marks of de-identification, [**...**] and ___.")
def mimic() -> None:
    """Notes of MIMIC-III or MIMIC-IV-Note, one record for each.

    Their columns are found by name. meta has kind, patient, admission and date; notes that are
    marked as errors are left out.
    """


@_reads("formats.texts.arrow:parquet_records", "Parquet", "notes.parquet -o notes.jsonl",
        "notes.parquet --columns id=number,text=note", archives=True)
@_takes_columns
def parquet() -> None:
    """Rows of Parquet files, one record for each.

    Columns are taken as import jsonl takes keys. Bytes under agreed keys are UTF-8; other columns
    of bytes, such as images, are left out.
    """


@_reads_documents("formats.texts.pdf:pdf_records", "PDF", "article.pdf -o article.jsonl",
                  "articles --rejects unread.jsonl -o articles.jsonl")
def pdf() -> None:
    """Text of PDFs, one record for each, a paragraph a line.

    Running heads, feet and page numbers are left out, divided words joined. meta.sections
    has the offsets of pages. Images are not read.
    """


@_reads("formats.texts.jats:jats_records", "JATS or NLM XML of PMC and of publishers",
        "article.nxml -o articles.jsonl",
        "article.nxml --include captions,back --account", archives=True,
        account="formats.texts.jats:jats_account")
@takes_settings(JatsConfig, "config")
def pmc() -> None:
    """Full text in JATS, PMC's XML, one record for every article.

    Headings, paragraphs and items of lists have a blank line between them; meta.sections lists the
    sections with their depth, path and offsets. Tables, references and footnotes are left out.
    Licences get their SPDX names. Archives (.tar.gz) are streamed, and never unpacked to disk.
    """


@_reads("formats.texts.pubmed:pubmed_records", "XML of PubMed or MEDLINE",
        "pubmed.xml.gz -o abstracts.jsonl", "pubmed*.xml.gz --titles --sentences",
        account="formats.texts.pubmed:pubmed_account")
@click.option("--titles", is_flag=True,
              help="Take the title as text where there is no abstract; otherwise none is written.")
@click.option("--other-abstracts", is_flag=True,
              help="Write abstracts in further languages too, as PMID-LANG.")
def pubmed() -> None:
    """PubMed and MEDLINE XML, one record for every abstract.

    The abstract is English whatever the article is, so lang is en and meta.languages keeps the
    article's. The parts of a structured abstract come one a line behind their labels, and
    meta.sections gives their offsets. Titles in brackets, which PubMed translated, lose them.

    Of update files, name the newest first and give --duplicates drop: each PMID keeps its newest
    version. PMIDs that a file deletes are counted.
    """


@_reads("formats.texts.plain_text:text_records", "UTF-8 text",
        "notes.txt --lang it -o notes.jsonl", "notes.txt --paragraphs --sentences --lang it",
        account="formats.texts.plain_text:text_account")
@click.option("--paragraphs", "unit", flag_value="paragraph",
              help="One record for every paragraph; a blank line ends it.")
@click.option("--whole-files", "unit", flag_value="file", help="One record for every file.")
def text() -> None:
    """Plain text, one record for every line that is not blank.

    Ids are the name of the file and the number of the line.
    """


@_reads("formats.texts.web:warc_records", "WARC", "crawl.warc.gz -o pages.jsonl",
        "crawl.warc.gz --rejects damaged.jsonl", archives=True)
def warc() -> None:
    """Main text of the HTML pages in WARC archives, one record for each.

    meta has the address and the time of download. Other records, types and answers are
    counted.
    """
