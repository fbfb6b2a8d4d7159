"""`bmtools import pubmed`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import click

from bmtools.commands.import_.importing import Source, imports_texts, source_format
from bmtools.io.sources import STDIN


@source_format("XML of PubMed or MEDLINE", "titles other-abstracts updates account",
               "pubmed.xml.gz -o abstracts.jsonl", "pubmed*.xml.gz --updates --sentences")
@click.option("--titles", is_flag=True,
              help="Take the title as text where there is no abstract; otherwise none is written.")
@click.option("--other-abstracts", is_flag=True,
              help="Write abstracts in further languages too, as PMID-LANG.")
@click.option("--updates", is_flag=True,
              help="Take the newest version of each PMID that no later file deletes, over baseline "
                   "and update files.")
@partial(imports_texts, has_account=True)
def command(titles: bool, other_abstracts: bool, updates: bool, with_account: bool) -> Source:
    """PubMed and MEDLINE XML, one record for every abstract.

    The abstract is English whatever the article is, so lang is en and meta.languages keeps the
    article's. The parts of a structured abstract come one a line behind their labels, and
    meta.sections gives their offsets. Titles in brackets, which PubMed translated, lose them.
    """
    from bmtools.corpus.formats.texts.pubmed import pubmed_records

    read = partial(pubmed_records, titles=titles, other_abstracts=other_abstracts)
    if with_account and updates:
        raise click.UsageError("--account: found --updates beside it, which leaves out whole "
                               "citations; account for the files first, then update")
    if with_account:
        from bmtools.corpus.formats.texts.pubmed_account import pubmed_account

        return Source(read, partial(pubmed_account, titles=titles,
                                    other_abstracts=other_abstracts))
    return Source(read, plan=_newest_in_files if updates else None)


def _newest_in_files(names: Sequence[str], jobs: int) -> Iterator[tuple[str, Mapping[str, object]]]:
    from bmtools.corpus.formats.texts.pubmed_updates import find_newest, in_order

    if STDIN in names:
        raise click.UsageError("--updates: found stdin, which cannot be read twice, expected files")
    for newest in find_newest(in_order(names), jobs):
        yield newest.name, {"newest": newest}
