"""`bmtools import auto`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("Files of mixed formats", "", "downloads -o texts.jsonl",
               "downloads --rejects unread.jsonl -o texts.jsonl", archives=True)
@partial(imports_texts, folders=True)
def command() -> Source:
    """Files whose formats are found by content and name, each read as its subcommand does.

    Known are text, table, jsonl, mimic, pubmed, pmc, xmi, html, warc, pdf, epub and parquet, with
    their defaults; other files are counted. meta.file is the file.
    """
    from bmtools.corpus.formats.texts.mixed import mixed_records

    return Source(mixed_records)
