"""Hallmarks of Cancer: the authors' archive of texts and labels, or BLUE's table of sentences."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from bmtools.corpus.formats.settings import HOC
from bmtools.corpus.tables import sentences_of_documents, table_records
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.folders import read_text
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import STDIN, open_bytes, source_name
from bmtools.records import Record

_AND = re.compile(r" AND\s*")
_CHUNK = 1 << 16  # bytes
_NONE = "null"  # of a few sentences
_TAR = slice(257, 262), b"ustar"
_FOLDERS = ("text", "labels")
Folders = dict[str, dict[str, str]]
"""Texts and labels, each by the names of documents."""


def hoc_records(names: Iterable[str], counts: Counter[str] | None = None,
                reject: Reject = refuse) -> Iterator[Record]:
    """Yield every sentence with its hallmarks as `labels`, in BLUE's spelling.

    Ids are `PMID_sN`, as in BLUE, and `meta.document` is the PMID. The archive has finer classes
    below the ten hallmarks: `meta.label_paths` keeps them. Source: Baker et al. 2016.

    Args:
        names: tar archives or folders with `text` and `labels` in them, or BLUE's TSV, which may
            come from stdin, `-`.
        counts: counts sentences without a hallmark, and documents.
        reject: receives a document whose labels do not fit its sentences.
    """
    counts = Counter() if counts is None else counts
    documents = set()
    for name in names:
        folders = _read_folder(name) if Path(name).is_dir() else \
            _read_archive(name) if _is_tar(name) else None
        for record in _sentences(name, folders, reject) if folders else sentences_of_documents(
                table_records([name], HOC, reject)):
            counts["sentences without a hallmark"] += not record["labels"]
            documents.add(record.get("meta", {}).get("document"))
            counts["documents"] = len(documents)
            yield record


def _is_tar(name: str) -> bool:
    if name == STDIN:  # which is opened once
        return False
    with open_bytes(name) as stream:
        where, magic = _TAR
        return bool(stream.peek(512)[where] == magic)  # type: ignore[attr-defined]


def _sentences(name: str, folders: Folders, reject: Reject) -> Iterator[Record]:
    texts, labels = (folders[folder] for folder in _FOLDERS)
    for document in dict.fromkeys((*texts, *labels)):
        place = f"{source_name(name)} ({document})"
        sentences = [line for line in texts.get(document, "").split("\n") if line.strip()]
        marked = labels.get(document, "").split("<")[1:]
        if len(sentences) != len(marked):
            reject(RecordError(place, f"found {len(sentences)} sentences in text and "
                                      f"{len(marked)} in labels, expected as many"))
            continue
        for number, (sentence, line) in enumerate(zip(sentences, marked, strict=True)):
            paths = [path.strip() for path in _AND.split(line.strip()) if path.strip()]
            top = dict.fromkeys(path.partition("--")[0].strip().lower() for path in paths)
            top.pop(_NONE, None)
            meta = {"document": document} | ({"label_paths": paths} if top else {})
            yield Record(id=f"{document}_s{number}", text=sentence.strip(), labels=list(top),
                         meta=meta, place=place)


def _read_folder(name: str) -> Folders:
    """Read the files of an unpacked archive; see `_read_archive`."""
    return _complete(name, {folder: {path.stem: read_text(str(path)) for path in sorted(
        Path(name).glob(f"**/{folder}/*.txt"))} for folder in _FOLDERS})


def _read_archive(name: str) -> Folders:
    """Read the files of the two folders, by the names of documents.

    Raises:
        DataError: a damaged archive, or one without these folders.
    """
    folders: Folders = {folder: {} for folder in _FOLDERS}
    try:
        with open_bytes(name) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if member.isfile() and path.parent.name in folders and path.suffix == ".txt":
                    check_record_size(member.size, f"{source_name(name)} ({member.name})")
                    content = archive.extractfile(member)
                    assert content is not None
                    folders[path.parent.name][path.stem] = content.read().decode()
            while stream.read(_CHUNK):  # what is behind the last file tells of damage before it
                pass
    except (tarfile.TarError, UnicodeDecodeError) as error:
        raise DataError(f"{source_name(name)}: damaged archive ({error}); copy or download it "
                        "again") from error
    return _complete(name, folders)


def _complete(name: str, folders: Folders) -> Folders:
    if not all(folders.values()):
        raise DataError(f"{source_name(name)}: found no .txt files in a folder text and a folder "
                        "labels, expected the archive of Hallmarks of Cancer")
    return folders
