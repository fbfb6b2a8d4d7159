"""`bmtools import` of texts with classes, scores and pairs: tables and sets in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bmtools.cli.settings import takes_settings
from bmtools.commands.import_.importing import imports, imports_folders, source_format
from bmtools.corpus.settings import BIOASQ_YESNO, BIOSSES, GAD, TableConfig
from bmtools.errors import Reject
from bmtools.records import Record


@source_format("table", "CSV or TSV", "",
               "notes.csv --text-column note --id-column number -o notes.jsonl",
               "pairs.tsv --text-column 1 --text-pair-column 2 --label-column 3 --no-header")
@imports
@takes_settings(TableConfig, "config")
def table(files: tuple[str, ...], config: TableConfig, counts: Counter[str],
          reject: Reject) -> Iterator[Record]:
    """Any CSV or TSV, one record for every row.

    Other columns go to meta. Tabs, commas or semicolons are found in the first line.
    """
    from bmtools.corpus.tables import table_records

    return table_records(files, config, reject)


@source_format("gad", "TSV of sentence and label", "", "gad.tsv -o train.jsonl",
               "gad.tsv --source GAD")
@imports
def gad(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """GAD and EU-ADR, sentences with @GENE$ and @DISEASE$ and the label 0 or 1.

    The first line may name the columns, as in test.tsv, or not, as in train.tsv.
    """
    from bmtools.corpus.tables import table_records

    return table_records(files, GAD, reject, headless=("sentence", "label"))


@source_format("hoc", "The archive or folder with text/ and labels/, or BLUE's TSV", "",
               "hoc.tsv -o hoc.jsonl", "hoc-original.tar.gz -o hoc.jsonl")
@imports_folders
def hoc(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Hallmarks of Cancer, one record for every sentence, its hallmarks under labels.

    meta.document is the abstract, meta.label_paths the finer classes of the archive.
    """
    from bmtools.corpus.formats.sets.hoc import hoc_records

    return hoc_records(files, counts, reject)


@source_format("biosses", "TSV of sentence1, sentence2 and score", "",
               "biosses.tsv -o biosses.jsonl", "biosses.tsv --lang en")
@imports
def biosses(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """BIOSSES, pairs of sentences with their similarity under score."""
    from bmtools.corpus.tables import table_records

    return table_records(files, BIOSSES, reject)


@source_format("bioasq-yesno", "TSV of yesno_label, question and ideal_answer", "",
               "yesno.tsv -o yesno.jsonl", "yesno.tsv --lang en")
@imports
def bioasq_yesno(files: tuple[str, ...], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """BioASQ's yes/no questions as TSV, to their ideal answers.

    bioasq --type yesno reads BioASQ's own files.
    """
    from bmtools.corpus.tables import table_records

    return table_records(files, BIOASQ_YESNO, reject)
