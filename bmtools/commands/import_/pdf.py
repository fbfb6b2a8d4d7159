"""`bmtools import pdf`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("PDF", "", "article.pdf -o article.jsonl",
               "articles --rejects unread.jsonl -o articles.jsonl", archives=True)
@partial(imports_texts, folders=True)
def command() -> Source:
    """Text of PDFs, one record for each, a paragraph a line.

    Running heads, feet and page numbers are left out, divided words joined. meta.sections has the
    offsets of pages. Images are not read.
    """
    from bmtools.corpus.formats.texts.pdf import pdf_records

    return Source(pdf_records, shares_folders=True)
