"""`bmtools import` of documents and pages: HTML, WARC, PDF, EPUB, trees of mixed files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from bmtools.cli.options import takes_sets
from bmtools.commands.import_.importing import imports_texts, source_format
from bmtools.errors import Reject
from bmtools.records import Record


def _files_in_folders(names: Sequence[str], *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
    from bmtools.corpus.formats.texts.documents import files_in_folders

    return files_in_folders(names)


imports_documents = partial(imports_texts, takes=takes_sets)
imports_single = partial(imports_documents, plan=_files_in_folders)
"""Do the same for formats of which a file is a record: workers share the files of a folder."""


@source_format("html", "HTML pages", "", "pages -o pages.jsonl", "page.html --lang it",
               archives=True)
@imports_single
def html(files: tuple[str, ...], counts: Counter[str], reject: Reject,
         folder: str = "") -> Iterator[Record]:
    """Main text of HTML pages, one record for each, without navigation.

    Title, language, licence and date are what the page states. Nothing is fetched.
    """
    from bmtools.corpus.formats.texts.web import html_records

    return html_records(files, counts, reject, folder)


@source_format("warc", "WARC", "", "crawl.warc.gz -o pages.jsonl",
               "crawl.warc.gz --rejects damaged.jsonl", archives=True)
@imports_documents
def warc(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Main text of the HTML pages in WARC archives, one record for each.

    meta has the address and the time of download. Other records, types and answers are counted.
    """
    from bmtools.corpus.formats.texts.web import warc_records

    return warc_records(files, counts, reject)


@source_format("pdf", "PDF", "", "article.pdf -o article.jsonl",
               "articles --rejects unread.jsonl -o articles.jsonl", archives=True)
@imports_single
def pdf(files: tuple[str, ...], counts: Counter[str], reject: Reject,
        folder: str = "") -> Iterator[Record]:
    """Text of PDFs, one record for each, a paragraph a line.

    Running heads, feet and page numbers are left out, divided words joined. meta.sections has the
    offsets of pages. Images are not read.
    """
    from bmtools.corpus.formats.texts.pdf import pdf_records

    return pdf_records(files, counts, reject, folder)


@source_format("epub", "EPUB", "", "book.epub -o book.jsonl", "book.epub --sentences --lang it",
               archives=True)
@imports_single
def epub(files: tuple[str, ...], counts: Counter[str], reject: Reject,
         folder: str = "") -> Iterator[Record]:
    """Text of books in EPUB, one record for each, a paragraph a line.

    meta.sections has the offsets of chapters, in the order of reading.
    """
    from bmtools.corpus.formats.texts.epub import epub_records

    return epub_records(files, counts, reject, folder)


@source_format("auto", "Files of mixed formats", "", "downloads -o texts.jsonl",
               "downloads --rejects unread.jsonl -o texts.jsonl", archives=True)
@imports_documents
def auto(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Files whose formats are found by content and name, each read as its subcommand does.

    Known are text, table, jsonl, mimic, pubmed, pmc, xmi, html, warc, pdf, epub and parquet, with
    their defaults; other files are counted. meta.file is the file.
    """
    from bmtools.corpus.formats.texts.mixed import mixed_records

    return mixed_records(files, counts, reject)
