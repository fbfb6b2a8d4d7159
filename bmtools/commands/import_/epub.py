"""`bmtools import epub`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("EPUB", "", "book.epub -o book.jsonl", "book.epub --sentences --lang it",
               archives=True)
@partial(imports_texts, folders=True)
def command() -> Source:
    """Text of books in EPUB, one record for each, a paragraph a line.

    meta.sections has the offsets of chapters, in the order of reading.
    """
    from bmtools.corpus.formats.texts.epub import epub_records

    return Source(epub_records, shares_folders=True)
