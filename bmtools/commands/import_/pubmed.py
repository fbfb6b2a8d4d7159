"""`bmtools import pubmed`."""

from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format


@source_format("XML of PubMed or MEDLINE", "titles other-abstracts account",
               "pubmed.xml.gz -o abstracts.jsonl", "pubmed*.xml.gz --titles --sentences")
@click.option("--titles", is_flag=True,
              help="Take the title as text where there is no abstract; otherwise none is written.")
@click.option("--other-abstracts", is_flag=True,
              help="Write abstracts in further languages too, as PMID-LANG.")
@partial(imports_texts, has_account=True)
def command(titles: bool, other_abstracts: bool, with_account: bool) -> Source:
    """PubMed and MEDLINE XML, one record for every abstract.

    The abstract is English whatever the article is, so lang is en and meta.languages keeps the
    article's. The parts of a structured abstract come one a line behind their labels, and
    meta.sections gives their offsets. Titles in brackets, which PubMed translated, lose them.

    Of update files, name the newest first and give --duplicates drop: each PMID keeps its newest
    version. PMIDs that a file deletes are counted.
    """
    from bmtools.corpus.formats.texts.pubmed import PubmedAccount, pubmed_records

    return Source(partial(pubmed_records, titles=titles, other_abstracts=other_abstracts),
                  PubmedAccount(titles, other_abstracts) if with_account else None)
