"""Foreign content: files that are no UTF-8 text or no records, and the command that helps."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

_STDIN = "<stdin>"
HEAD_BYTES = 1 << 13
"""Bytes from the start of a source that are looked at."""
_AROUND = 12  # characters shown on either side of a byte that is not UTF-8
UNPACK = {".gz": "gunzip -c", ".zst": "zstd -dc", ".zstd": "zstd -dc"}
"""Commands that unpack a file, by its ending."""
_PANDOC = "pandoc -t plain --wrap=none {} | bmtools import text"
# First bytes, what they mean, and how the text is had; `{}` is replaced by the file.
_BYTES = tuple((re.compile(pattern, re.DOTALL), found, remedy) for pattern, found, remedy in (
    (rb"%PDF", "a PDF", "bmtools import pdf {}"),
    (rb"PAR1", "a Parquet file", "bmtools import parquet {}"),
    (rb"BZh", "a bzip2 file", "bzip2 -dc {}, and a pipe into this command"),
    (rb"\xfd7zXZ", "an xz file", "xz -dc {}, and a pipe into this command"),
    (rb"{\\rtf", "an RTF document", _PANDOC),
    (rb"PK\x03\x04.*word/", "a Word document", f"{_PANDOC} --paragraphs"),
    (rb"PK\x03\x04.*xl/", "an Excel workbook", "save it as CSV in UTF-8 first"),
    (rb"PK\x03\x04.*application/epub", "an EPUB", "bmtools import epub {}"),
    (rb"PK\x03\x04", "a zip archive", "unzip it and name its files"),
    (rb".{257}ustar", "a tar archive", "unpack it and name its files"),
))
# Marks of encodings, or the NUL bytes of Latin letters without one.
_WIDE = tuple((re.compile(pattern), encoding) for pattern, encoding in (
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "UTF-32"), (rb"\xff\xfe|\xfe\xff", "UTF-16"),
    (rb"(?:[^\0]\0){4}", "UTF-16LE"), (rb"(?:\0[^\0]){4}", "UTF-16BE")))
_XML = r"<\?xml|<(?:PubmedArticle|MedlineCitation)(?:Set)?\b"
_TAGGED = r"\S+(?:[\t ]+\S+){0,3}[\t ]+(?:O|[BIESLU](?:-\S+)?)\s*$"
# First lines, what they mean, and the command that makes records of the file.
_LINES = tuple((re.compile(pattern, re.IGNORECASE if "html" in pattern else 0), found, remedy)
               for pattern, found, remedy in (
    (r"<document\b", "XML, expected records", "bmtools import ddi {}"),
    (r"<(?:html|!doctype html)", "HTML, expected records", "bmtools import html {}"),
    (_TAGGED, "tagged tokens, expected records", "bmtools import conll {}"),
    (r"-DOCSTART-", "tagged tokens, expected records", "bmtools import conll {}"),
    (r"[\w.-]+\|t\|", "PubTator's lines, expected records", "bmtools import pubtator {}"),
    (r"[\w.-]+\|(?:[at]\|)?\S", "id|text, expected records",
     "bmtools import standoff {} --annotations FILE"),
    (r"\[", "a JSON list, expected one JSON object a line",
     "jq -c '.[]' {} | bmtools import jsonl"),
    (r'{(?:\s*$|"data"|"contexts"|"version")',
     "one JSON object over several lines, expected one a line", "jq -c . {} | bmtools import "
     "jsonl, or bmtools import curated {} for BioBIT's maskings")))


def foreign_bytes(head: bytes, name: str) -> str | None:
    """Describe content that is no UTF-8 text, with the command that makes it text.

    Args:
        head: first bytes, unpacked, without a UTF-8 BOM.
        name: of the source in messages.

    Returns:
        one line, or None where nothing speaks against UTF-8.
    """
    for pattern, encoding in _WIDE:
        if pattern.match(head):
            return f"found {encoding[:6]} text, expected UTF-8; type {_iconv(encoding, name)}"
    for pattern, found, remedy in _BYTES:
        if pattern.match(head):
            return f"found {found}, expected text; type {remedy.format(_quoted(name))}"
    if b"\0" in head:
        return f"found the NUL byte {head.index(0) + 1}, expected UTF-8 text, not a binary file"
    return None


def not_utf8(line: bytes, start: int, name: str) -> str:
    """Say which byte of a line is not UTF-8, and how to convert the file.

    Args:
        line: where decoding failed.
        start: the byte at which it failed.
        name: of the source in messages.
    """
    decoded = line.decode("utf-8", "ignore")
    if len(decoded) < len(decoded.encode()):
        way_out = (f"the line has UTF-8 letters too, so this byte is damaged: mend it, or drop all "
                   f"such bytes by {_iconv('UTF-8', name, '-c ')}")
    else:
        near = line[max(0, start - _AROUND):start + _AROUND].decode("cp1252", "replace").strip()
        way_out = f"as Windows-1252 it reads {near!r}: type {_iconv('WINDOWS-1252', name)}"
    return f"byte {start + 1} is not UTF-8; {way_out}"


def _iconv(encoding: str, name: str, option: str = "") -> str:
    call = f"iconv {option}-f {encoding} -t UTF-8"
    if name == _STDIN:
        return f"{call} before this command in the pipe"
    unpack = UNPACK.get(PurePath(name).suffix)
    return f"{unpack} {_quoted(name)} | {call}" if unpack else f"{call} {_quoted(name)}"


def _quoted(name: str) -> str:
    return "FILE" if name == _STDIN else shlex.quote(name)


def importer(line: str, name: str) -> str:
    """Name the command that makes records of a source, by its first line.

    Args:
        line: not blank, and no JSON object.
        name: of the source in messages.

    Returns:
        what was found, and the command to type; empty where it may be a record that went wrong.
    """
    file, start = _quoted(name), line.lstrip()
    for pattern, found, remedy in _LINES:
        if pattern.match(start):
            return f"found {found}; type {remedy.replace('{}', file)}"
    if re.match(_XML, start):
        return f"found XML, expected records; for PubMed's, type bmtools import pubmed {file}"
    if start.startswith("<"):
        return (f"found markup ({start[:20].rstrip()}), expected records; take the text out, then "
                "type bmtools import text FILE")
    return _table([line], name)


def not_plain_text(head: bytes, name: str) -> str | None:
    """Describe content that is no plain text, though perhaps UTF-8, with the command to type.

    Args:
        head: first bytes, unpacked, without a UTF-8 BOM.
        name: of the source in messages.

    Returns:
        one line, or None where nothing speaks against plain text.
    """
    fault = foreign_bytes(head, name)
    lines = head.decode("utf-8", "ignore").splitlines()
    # The last line may be cut, where the head is not the whole file.
    lines = [line for line in lines[:-1] or lines if line.strip()]
    if fault or not lines:
        return fault
    start, file = lines[0].lstrip(), _quoted(name)
    if re.match(_XML, start):
        return f"found XML, expected plain text; for PubMed's, type bmtools import pubmed {file}"
    if start.startswith('{"'):
        return f"found JSON Lines, expected plain text; type bmtools import jsonl {file}"
    if len(lines) > 2 and all(re.match(_TAGGED, line) for line in lines):
        return f"found tagged tokens, expected plain text; type bmtools import conll {file}"
    return _table(lines, name) or None


_TEXT_NAMES = ("text", "abstract", "testo", "sentence", "content", "note", "body", "question")
_ID_NAMES = ("id", "pmid", "pubmedid", "record_id", "doc_id", "index")


def _table(lines: Sequence[str], name: str) -> str:
    """Describe a table by its first lines, and name the command that makes records of it.

    A file is one if it is named .csv or .tsv and its first line has several columns, or if that
    line names a column of texts beside others.
    """
    named = any(suffix.lower() in (".csv", ".tsv") for suffix in PurePath(name).suffixes[-2:])
    for separator in "\t,;":
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE) \
            if separator == "\t" else csv.reader(lines, delimiter=separator)
        try:
            header = next(filter(None, reader), [])
        except csv.Error:  # cells too long for a table
            continue
        found = {column.lower(): column for column in reversed(header)}
        text, number = ([found[known] for known in names if known in found][:1]
                        for names in (_TEXT_NAMES, _ID_NAMES))
        if len(header) > 1 and (named or text):
            columns = ",".join([*(f"id={column}" for column in number),
                                f"text={(text or ['COLUMN'])[0]}"])
            return (f"found a table of {len(header)} columns ({', '.join(header)[:60]}); type "
                    f"bmtools import table {_quoted(name)} --columns {shlex.quote(columns)}")
    return ""
