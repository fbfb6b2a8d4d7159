"""Files of mixed formats, each of which is found by content and name."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bmtools.corpus.formats.sets.xmi import xmi_records
from bmtools.corpus.formats.settings import TableConfig
from bmtools.corpus.formats.texts.arrow import parquet_records
from bmtools.corpus.formats.texts.documents import file_error, file_id, path_within
from bmtools.corpus.formats.texts.epub import epub_records
from bmtools.corpus.formats.texts.jats import jats_records
from bmtools.corpus.formats.texts.json_lines import jsonl_records
from bmtools.corpus.formats.texts.mimic import mimic_records, release_of
from bmtools.corpus.formats.texts.pdf import pdf_records
from bmtools.corpus.formats.texts.plain_text import text_records
from bmtools.corpus.formats.texts.pubmed import ROOTS as PUBMED_ROOTS
from bmtools.corpus.formats.texts.pubmed import pubmed_records
from bmtools.corpus.formats.texts.web import HTML, html_records, warc_records
from bmtools.corpus.tables import table_records
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.archives import corpus_files, is_tar
from bmtools.io.folders import archive_of, member_ending
from bmtools.io.foreign import HEAD_BYTES, ID_NAMES, TEXT_NAMES, foreign_bytes
from bmtools.io.sources import STDIN, MemberName, open_bytes, source_stem, zstd
from bmtools.records import Record

_NAMED = 3
_EPUB = b"mimetypeapplication/epub+zip"
_PROSE = (".txt", ".text", ".md", ".asc", "")
_TABLES = (".csv", ".tsv")
_ROOTS = {"pubmed": re.compile(rf"<(?:{'|'.join(PUBMED_ROOTS)})\b"),
          "pmc": re.compile(r"<(?:\w+:)?(?:pmc-articleset|article)\b"),
          "xmi": re.compile(r"<(?:\w+:)?XMI\b"),
          "html": re.compile(r"<!doctype html|<html\b", re.IGNORECASE)}


def mixed_records(names: Iterable[str], counts: Counter[str] | None = None,
                  reject: Reject = refuse) -> Iterator[Record]:
    """Yield the records of files of any format that `format_of` knows, `meta.file` naming each.

    Each reader takes its defaults; plain text makes a record of a file. Ids of records that are a
    file are its path, without endings.

    Args:
        names: files, folders and archives of such, also archives in folders; `-` for stdin.
        counts: counts files by format, those of no format that is known, and what readers leave
            out.
        reject: receives a file that cannot be read, and what readers reject.
    """
    counts = Counter() if counts is None else counts
    for name in names:
        unknown: list[str] = []
        for file, form in _files(name, counts):
            path = path_within(file, name)
            if not form:
                unknown.append(path)
                continue
            counts[f"files of the format {form}"] += 1
            own_id = source_stem(file)
            try:
                for record in _READERS[form]([file], counts=counts, reject=reject):
                    if record["id"] == own_id:
                        record["id"] = file_id(file, name)
                    record["meta"] = {**record.get("meta", {}), "file": path}
                    yield record
            except RecordError:
                raise
            except DataError as error:
                reject(file_error(file, error))
        if unknown:
            more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
            listed = ", ".join(unknown[:_NAMED])
            counts[f"files of no known format ({listed}{more})"] += len(unknown)


def _files(name: str, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield files with their formats, and those of archives that lie in folders."""
    if name != STDIN and archive_of(name) == Path(name) and format_of(_head(name), name) == "epub":
        yield name, "epub"
        return
    for file in corpus_files(name, counts=counts):
        if isinstance(file, MemberName):
            yield _form_of_member(file)
        else:
            head = _head(file)
            if file != name and _is_archive(file, head):
                yield from _files(file, counts)
            else:
                yield file, format_of(head, file)


def _is_archive(file: str, head: bytes) -> bool:
    """Tell whether a file is a tar archive, or a zip archive that is no document."""
    is_zip = head.startswith(b"PK") and archive_of(file) is not None
    return is_tar(head) or (is_zip and b"[Content_Types].xml" not in head
                            and not head[30:].startswith(b"mimetype"))


def _head(file: str) -> bytes:
    """Look at a file, which a member of an archive allows only before it is read."""
    if isinstance(file, MemberName):
        return _unpacked(file.opener().peek(HEAD_BYTES))[:HEAD_BYTES]  # type: ignore[attr-defined]
    with open_bytes(file) as stream:
        found: bytes = stream.peek(HEAD_BYTES)  # type: ignore[attr-defined]
        return found[:HEAD_BYTES]


def _form_of_member(file: MemberName) -> tuple[str, str]:
    """Look at a file of an archive, which can be opened only once."""
    stream = file.opener()
    again = MemberName(file, lambda: stream)
    return again, format_of(_head(again), file)


def _unpacked(head: bytes) -> bytes:
    """Undo gzip or zstd, as far as a head can be."""
    try:
        if head.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        if head.startswith(b"\x28\xb5\x2f\xfd"):
            return zstd.ZstdDecompressor().decompress(head, HEAD_BYTES)
    except (zlib.error, zstd.ZstdError):
        return b""
    return head


def format_of(head: bytes, name: str) -> str:
    """Find the format of a file.

    Args:
        head: its first bytes, unpacked.
        name: of the file.

    Returns:
        name of the subcommand of `import`; empty where none is known.
    """
    ending = member_ending(name).lower()
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK"):
        return "epub" if _EPUB in head[:100] or ending == ".epub" else ""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"WARC/"):
        return "warc"
    if ending in HTML:
        return "html"
    return "" if foreign_bytes(head, name) else _format_of_text(head.decode("utf-8", "ignore"),
                                                               name, ending)


def _format_of_text(head: str, name: str, ending: str) -> str:
    start = head.lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        found = {match.start(): form for form, root in _ROOTS.items()
                 if (match := root.search(start))}
        return found[min(found)] if found else ""
    line = start.partition("\n")[0]
    if start.startswith("{"):
        return "jsonl" if '"text"' in line else ""
    columns = {column.lower() for column in _columns(line)}
    if release_of(columns):
        return "mimic"
    if ending in _TABLES:
        return "table" if columns & set(TEXT_NAMES) else ""
    return "text" if ending in _PROSE and start else ""


def _columns(line: str) -> list[str]:
    return [column.strip('" \r') for column in re.split("[\t,;|]", line)]


def _read_table(names: Sequence[str], counts: Counter[str], reject: Reject) -> Iterator[Record]:
    [file] = names
    head = _head(file).decode("utf-8-sig", "ignore")
    by_name = {column.lower(): column for column in _columns(head.lstrip().partition("\n")[0])}
    text, own_id = (next((by_name[name] for name in names if name in by_name), "")
                    for names in (TEXT_NAMES, ID_NAMES))
    return table_records([file], TableConfig(text, id_column=own_id), reject)


_READERS: dict[str, Callable[..., Iterator[Record]]] = {
    "epub": epub_records, "html": html_records, "jsonl": jsonl_records, "mimic": mimic_records,
    "parquet": parquet_records, "pdf": pdf_records, "pmc": jats_records,
    "pubmed": pubmed_records, "table": _read_table, "text": partial(text_records, unit="file"),
    "warc": warc_records, "xmi": xmi_records}
"""Readers with the defaults of their subcommands."""

