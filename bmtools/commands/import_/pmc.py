"""`bmtools import pmc`."""

from functools import partial

from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import Source, imports_texts, source_format
from bmtools.corpus.formats.settings import JatsConfig


@source_format("JATS or NLM XML of PMC and of publishers, in folders, zip or tar archives",
               "include drop-citations account", "article.nxml -o articles.jsonl",
               "article.nxml --include captions,back --drop-citations --account")
@takes_settings(JatsConfig, "config")
@partial(imports_texts, folders=True, has_account=True)
def command(config: JatsConfig, with_account: bool) -> Source:
    """Full text in JATS, PMC's XML, one record for every article.

    Headings, paragraphs and items of lists have a blank line between them; meta.sections lists the
    sections with their depth, path and offsets. Tables, references and footnotes are left out.
    Licences get their SPDX names. Archives (.tar.gz) are streamed, and never unpacked to disk.
    """
    from bmtools.corpus.formats.texts.jats import jats_account, jats_records

    return Source(partial(jats_records, config=config), partial(jats_account, config=config))
