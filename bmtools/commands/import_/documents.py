"""`bmtools import` of documents and pages: HTML, WARC, PDF, EPUB, trees of mixed files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from bmtools.cli.options import takes_sets
from bmtools.commands.import_.importing import imports_texts, source_format
from bmtools.errors import Reject
from bmtools.records import Record


@source_format("html", "HTML pages", "", "pages -o pages.jsonl", "page.html --lang it",
               archives=True)
@partial(imports_texts, takes=takes_sets)
def html(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Main text of HTML pages, one record for each, without navigation.

    Title, language, licence and date are what the page states. Nothing is fetched.
    """
    from bmtools.corpus.texts.web import html_records

    return html_records(files, counts, reject)


@source_format("warc", "WARC", "", "crawl.warc.gz -o pages.jsonl",
               "crawl.warc.gz --rejects damaged.jsonl", archives=True)
@partial(imports_texts, takes=takes_sets)
def warc(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Main text of the HTML pages in WARC archives, one record for each.

    meta has the address and the time of download. Other records, types and answers are counted.
    """
    from bmtools.corpus.texts.web import warc_records

    return warc_records(files, counts, reject)
