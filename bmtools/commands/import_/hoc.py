"""`bmtools import hoc`."""

from functools import partial

from bmtools.commands.import_.importing import Reader, imports, source_format


@source_format("The archive or folder with text/ and labels/, or BLUE's TSV", "",
               "hoc.tsv -o hoc.jsonl", "hoc-original.tar.gz -o hoc.jsonl")
@partial(imports, folders=True)
def command() -> Reader:
    """Hallmarks of Cancer, one record for every sentence, its hallmarks under labels.

    meta.document is the abstract, meta.label_paths the finer classes of the archive.
    """
    from bmtools.corpus.formats.sets.hoc import hoc_records

    return hoc_records
