"""`bmtools import` of XML that holds whole documents: PMC's articles, UIMA's XMI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import click

from bmtools.cli.options import takes_sets
from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import imports_texts, source_format
from bmtools.corpus.formats.texts.settings import JatsConfig
from bmtools.errors import Reject
from bmtools.records import Record


def _account(records: Iterator[Record], name: str, counts: Counter[str],
             config: JatsConfig) -> Iterator[Record]:
    from bmtools.corpus.formats.texts.jats import jats_account

    return jats_account(records, name, counts, config)


@source_format("pmc", "JATS or NLM XML of PMC and of publishers, in folders, zip or tar archives",
               "include drop-citations by-section account",
               "article.nxml -o articles.jsonl",
               "article.nxml --include captions,back --drop-citations --account")
@takes_settings(JatsConfig, "config")
@partial(imports_texts, takes=takes_sets, account=_account)
def pmc(files: tuple[str, ...], config: JatsConfig, counts: Counter[str],
        reject: Reject) -> Iterator[Record]:
    """Full text in JATS, PMC's XML, one record for every article.

    Headings, paragraphs and items of lists have a blank line between them; meta.sections lists the
    sections with their depth, path and offsets. Tables, references and footnotes are left out.
    Licences get their SPDX names. Archives (.tar.gz) are streamed, and never unpacked to disk.
    """
    from bmtools.corpus.formats.texts.jats import jats_records

    return jats_records(files, config, counts)


@source_format("xmi", "UIMA's XMI, as WebAnno, INCEpTION and cTAKES write, in folders, zip or tar "
               "archives", "types", "case.xmi -o cases.jsonl",
               "case.xmi --types CLINENTITY,BODYPART --sentences --lang it")
@click.option("--types", metavar="NAME,...",
              help="Elements that become entities; otherwise all but tokens, sentences, syntax and "
                   "facts about the document.")
@partial(imports_texts, takes=takes_sets)
def xmi(files: tuple[str, ...], types: str | None, counts: Counter[str],
        reject: Reject) -> Iterator[Record]:
    """UIMA's XMI, as of E3C, one record for every view with a text.

    An entity's type is the name of its element, its features are in attributes. Links between
    annotations become relations. Offsets, which count UTF-16 units, become code points.
    """
    from bmtools.corpus.formats.sets.xmi import xmi_records

    names = tuple(name.strip() for name in (types or "").split(",") if name.strip())
    return xmi_records(files, names, counts, reject)
