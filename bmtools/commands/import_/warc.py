"""`bmtools import warc`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("WARC", "", "crawl.warc.gz -o pages.jsonl", "crawl.warc.gz --rejects damaged.jsonl",
               archives=True)
@partial(imports_texts, folders=True)
def command() -> Source:
    """Main text of the HTML pages in WARC archives, one record for each.

    meta has the address and the time of download. Other records, types and answers are counted.
    """
    from bmtools.corpus.formats.texts.web import warc_records

    return Source(warc_records)
