"""Hallmarks of Cancer: the authors' archive of texts and labels, or BLUE's table of sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from pathlib import PurePath

from bmtools.corpus.formats.settings import HOC
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.tables import sentences_of_documents, table_records
from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.folders import corpus_files, read_text
from bmtools.io.sources import STDIN, source_name, source_stem
from bmtools.records import Record, document_of

_AND = re.compile(r" AND\s*")
_NONE = "null"  # label of a few sentences
_FOLDERS = ("text", "labels")
Folders = dict[str, dict[str, str]]
"""Texts and labels by document name."""


@reader
def hoc_records(names: Iterable[str], tally: Tally, documents: bool = False) -> Iterator[Record]:
    """Yield every sentence with its hallmarks as `labels`, in BLUE's spelling.

    Ids are `PMID_sN`, as in BLUE, and `meta.document` is the PMID. The archive has finer classes
    below the ten hallmarks, which are stored in `meta.label_paths`. Sources: Baker et al. 2016; for
    documents Gu et al. 2021, sections 4.5 and 5.2 (BLURB).

    Args:
        names: tar archives or folders with `text` and `labels`, or BLUE's TSV, which may be stdin,
            `-`.
        tally: counts sentences or documents without a hallmark, and documents.
            It rejects a document with fewer or more labels than sentences.
        documents: yield a record for every document instead of its sentences. Its text has a line
            for each sentence, it has the labels of all sentences, and its id is the PMID.
    """
    unit, found = "documents" if documents else "sentences", set()
    for name in names:
        files = corpus_files(name, ".txt", counts=Counter())
        first = next(files, "")
        records = sentences_of_documents(table_records([first], HOC, reject=tally.reject)) \
            if first in (name, STDIN) else _sentences(
                name, _folders(name, chain(filter(None, [first]), files)), tally.reject)
        for record in _joined(records) if documents else records:
            tally.counts[f"{unit} without a hallmark"] += not record["labels"]
            found.add(record.get("meta", {}).get("document"))
            tally.counts["documents"] = len(found)
            yield record


def _joined(sentences: Iterable[Record]) -> Iterator[Record]:
    """Join neighbouring sentences of the same document."""
    for document, group in groupby(sentences, document_of):
        own = [*group]
        labels, paths = (dict.fromkeys(chain.from_iterable(lists)) for lists in (
            (one["labels"] for one in own),
            (one.get("meta", {}).get("label_paths", ()) for one in own)))
        yield own[0].replace(
            id=document, text="\n".join(one["text"] for one in own), labels=[*labels],
            meta={"document": document} | ({"label_paths": [*paths]} if paths else {}))


def _sentences(name: str, folders: Folders, reject: Reject) -> Iterator[Record]:
    texts, labels = (folders[folder] for folder in _FOLDERS)
    for document in dict.fromkeys((*texts, *labels)):
        place = f"{source_name(name)} ({document})"
        sentences = [line for line in texts.get(document, "").split("\n") if line.strip()]
        marked = labels.get(document, "").split("<")[1:]
        if len(sentences) != len(marked):
            reject(RecordError(place, f"found {len(sentences)} sentences in text and "
                                      f"{len(marked)} in labels, expected the same number"))
            continue
        for number, (sentence, line) in enumerate(zip(sentences, marked, strict=True)):
            paths = [path.strip() for path in _AND.split(line.strip()) if path.strip()]
            top = dict.fromkeys(path.partition("--")[0].strip().lower() for path in paths)
            top.pop(_NONE, None)
            meta = {"document": document} | ({"label_paths": paths} if top else {})
            yield Record(id=f"{document}_s{number}", text=sentence.strip(), labels=list(top),
                         meta=meta, place=place)


def _folders(name: str, files: Iterable[str]) -> Folders:
    """Read the files of the two folders, by document name.

    Raises:
        DataError: the files are missing.
    """
    folders: Folders = {folder: {} for folder in _FOLDERS}
    for file in files:
        path = PurePath(file)
        if path.parent.name in folders:
            folders[path.parent.name][source_stem(file)] = read_text(file)
    if not all(folders.values()):
        raise DataError(f"{source_name(name)}: found no .txt files in a folder text and a folder "
                        "labels, expected the archive of Hallmarks of Cancer")
    return folders
