"""`bmtools import`: a module for each source format with options, imported when it is called."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import click

from bmtools.cli.help import Group, write_rows

FORMATS = {
    "bioasq": "BioASQ's own files, the questions of one type.",
    "bioasq-yesno": "BioASQ's yes/no questions as TSV, to their ideal answers.",
    "biobit-qa": "BioBIT's Italian BioASQ questions, one split of them.",
    "biored": "BioBIT's Italian BioRED, one record for every abstract.",
    "biosses": "BIOSSES, pairs of sentences with their similarity under score.",
    "brat": "Texts of BRAT with their annotations, one record for every text.",
    "chemprot": "ChemProt as BioCreative VI, BioBIT or SciBERT publish it.",
    "conll": "CoNLL columns with IO, IOB, IOBES or BILOU tags, one record for every sentence.",
    "curated": "BioBIT's curated maskings, one record with text and target for each.",
    "ddi": "Drug-drug interactions of DDI-2013, one record for every sentence.",
    "epub": "Text of books in EPUB, one record for each, a paragraph a line.",
    "gad": "GAD and EU-ADR, sentences with @GENE$ and @DISEASE$ and the label 0 or 1.",
    "hoc": "Hallmarks of Cancer, one record for every sentence, its hallmarks under labels.",
    "html": "Main text of HTML pages, one record for each, without navigation.",
    "i2b2-2010": "Concepts, assertions and relations of i2b2 2010, one record for every text.",
    "i2b2-xml": "Events and times of i2b2 2012, identifiers of 2014, one record for every file.",
    "jsonl": "Foreign JSON Lines, under the keys that commands agree on.",
    "mimic": "Notes of MIMIC-III or MIMIC-IV-Note, one record for each.",
    "nli": "MedNLI and other sets of SNLI's form, one record for every pair of sentences.",
    "parquet": "Rows of Parquet files, one record for each.",
    "pdf": "Text of PDFs, one record for each, a paragraph a line.",
    "pmc": "Full text in JATS, PMC's XML, one record for every article.",
    "pubmed": "PubMed and MEDLINE XML, one record for every abstract.",
    "pubmedqa": "PubMedQA, one record for every question, with label yes, no or maybe.",
    "pubtator": "PubTator's lines, as BioRED and BC5CDR are published, one record for every "
                "document.",
    "squad": "SQuAD of both versions, and BioASQ in its form, one record for every question.",
    "standoff": "Lines of id|text, with mentions in a file of their own.",
    "table": "Any CSV or TSV, one record for every row.",
    "text": "Plain text, one record for every line that is not blank.",
    "warc": "Main text of the HTML pages in WARC archives, one record for each.",
}
"""The first sentence of each format's help; none of the modules is imported for a list of them."""


class _Formats(Group):
    """A group that imports the module of a format only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(FORMATS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in FORMATS:
            return None
        module = f"{__name__}.{name.replace('-', '_')}"
        if find_spec(module) is None:
            from bmtools.commands.import_.plain import plain_command

            return plain_command(name, FORMATS[name])
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            write_rows(FORMATS.items(), formatter)


@click.group("import", cls=_Formats, examples=(
    "bmtools import text notes.txt --lang it -o notes.jsonl",
    "bmtools import pubmed pubmed.xml.gz | bmtools build-vocab --allow-fewer -o words"))
def command() -> None:
    """Turn biomedical source formats into records.

    Name a format, then files; "-" or nothing means stdin, and gzip or zstd is undone. Records go
    to stdout as JSON Lines, omissions are counted on stderr. Sources without a single record are
    an error, unless --allow-empty is given.
    """
