"""`bmtools import html`."""

from functools import partial

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("HTML pages", "", "pages -o pages.jsonl", "page.html --lang it", archives=True)
@partial(imports_texts, folders=True)
def command() -> Source:
    """Main text of HTML pages, one record for each, without navigation.

    Title, language, licence and date are what the page states. Nothing is fetched.
    """
    from bmtools.corpus.formats.texts.web import html_records

    return Source(html_records, shares_folders=True)
