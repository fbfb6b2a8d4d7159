"""Foreign content: files that are no UTF-8 text or no records, and the command that helps."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

_STDIN = "<stdin>"
NOT_UTF8 = "byte {} is not UTF-8; {}"
HEAD_BYTES = 1 << 13
"""Bytes from the start of a source that are looked at."""
_AROUND = 12  # characters shown on either side of a byte that is not UTF-8
UNPACK = {".gz": "gunzip -c", ".zst": "zstd -dc", ".zstd": "zstd -dc"}
"""Commands that unpack a file, by its ending."""


class _Kind(NamedTuple):
    """A format by its first bytes, and how its text is had; `{}` is replaced by the file."""

    magic: bytes
    name: str
    remedy: str


_KINDS = (
    _Kind(b"%PDF", "a PDF", "bmtools import pdf {}"),
    _Kind(b"PAR1", "a Parquet file", "bmtools import parquet {}"),
    _Kind(b"BZh", "a bzip2 file", "bzip2 -dc {}, and a pipe into this command"),
    _Kind(b"\xfd7zXZ", "an xz file", "xz -dc {}, and a pipe into this command"),
    _Kind(b"{\\rtf", "an RTF document", "pandoc -t plain --wrap=none {} | bmtools import text"),
    _Kind(b"\xd0\xcf\x11\xe0", "an old Word, Excel or PowerPoint file",
          "soffice --headless --convert-to txt:Text {}, then bmtools import text"),
    _Kind(b"ARROW1", "an Arrow file", "write it as Parquet or JSON Lines with its library first"),
    _Kind(b"SQLite format 3", "an SQLite database",
          "sqlite-utils rows {} TABLE --nl | bmtools import jsonl"),
)
_ZIP = b"PK\x03\x04"
_DOCX = _Kind(_ZIP, "a Word document",
              "pandoc -t plain --wrap=none {} | bmtools import text --paragraphs")
_XLSX = _Kind(_ZIP, "an Excel workbook", "save it as CSV in UTF-8 first")
_EPUB = _Kind(_ZIP, "an EPUB", "bmtools import epub {}")
_ARCHIVE = _Kind(_ZIP, "a zip archive", "unzip it and name its files")
_TAR = _Kind(b"ustar", "a tar archive", "unpack it and name its files")


def foreign_bytes(head: bytes, name: str) -> str | None:
    """Describe content that is no UTF-8 text, with the command that makes it text.

    Args:
        head: first bytes, unpacked, without a UTF-8 BOM.
        name: of the source in messages.

    Returns:
        one line, or None where nothing speaks against UTF-8.
    """
    encoding = _wide_encoding(head)
    if encoding:
        return (f"found {encoding[:6]} text, expected UTF-8; "
                f"type {_iconv(encoding, name)}")
    kind = next((kind for kind in _KINDS if head.startswith(kind.magic)), None)
    if head.startswith(_ZIP):
        kind = _DOCX if b"word/" in head or name.lower().endswith(".docx") else \
            _XLSX if b"xl/" in head or name.lower().endswith(".xlsx") else \
            _EPUB if b"application/epub" in head else _ARCHIVE
    elif head[257:262] == _TAR.magic:
        kind = _TAR
    if kind:
        return f"found {kind.name}, expected text; type {kind.remedy.format(_quoted(name))}"
    if b"\0" in head:
        return f"found the NUL byte {head.index(0) + 1}, expected UTF-8 text, not a binary file"
    return None


def _wide_encoding(head: bytes) -> str:
    """Recognise UTF-16 and UTF-32 by their mark, or by the NUL bytes of Latin letters."""
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    pairs = len(head) // 2
    if pairs > 1 and b"\0" in head:
        even, odd = head[:2 * pairs:2].count(0), head[1:2 * pairs:2].count(0)
        if odd > pairs // 2 and not even:
            return "UTF-16LE"
        if even > pairs // 2 and not odd:
            return "UTF-16BE"
    return ""


def not_utf8(line: bytes, error: UnicodeDecodeError, name: str) -> str:
    """Say which byte of a line is not UTF-8, and how to convert the file.

    Args:
        line: where decoding failed.
        error: the failure.
        name: of the source in messages.
    """
    decoded = line.decode("utf-8", "ignore")
    if len(decoded) < len(decoded.encode()):
        way_out = (f"the line has UTF-8 letters too, so this byte is damaged: mend it, or drop all "
                   f"such bytes by {_iconv('UTF-8', name, '-c ')}")
    else:
        try:
            near = line[:error.start].decode("cp1252")[-_AROUND:] + \
                line[error.start:].decode("cp1252")[:_AROUND]
            way_out = (f"as Windows-1252 it reads {near.strip()!r}: "
                       f"type {_iconv('WINDOWS-1252', name)}")
        except UnicodeDecodeError:
            way_out = ("find out its encoding (file -i names one), then type "
                       f"{_iconv('ENCODING', name)}")
    return NOT_UTF8.format(error.start + 1, way_out)


def _iconv(encoding: str, name: str, option: str = "") -> str:
    call = f"iconv {option}-f {encoding} -t UTF-8"
    if name == _STDIN:
        return f"{call} before this command in the pipe"
    unpack = UNPACK.get(PurePath(name).suffix)
    return f"{unpack} {_quoted(name)} | {call}" if unpack else f"{call} {_quoted(name)}"


def _quoted(name: str) -> str:
    return "FILE" if name == _STDIN else shlex.quote(name)


_TAGGED = re.compile(r"\S+(?:[\t ]+\S+){0,3}[\t ]+(?:O|[BIESLU](?:-\S+)?)\s*")
_TAGGED_LINES = 3
_PUBTATOR = re.compile(r"[\w.-]+\|t\|")
_STANDOFF = re.compile(r"[\w.-]+\|(?:[at]\|)?\S")
# Root elements of annotated sets, and the formats of `import` that read them.
_ANNOTATED = {"<document": "ddi", "<deIdi2b2": "i2b2-xml",
              "<ClinicalNarrativeTemporalAnnotation": "i2b2-xml"}
_PUBMED = ("PubmedArticleSet", "MedlineCitationSet", "PubmedArticle", "MedlineCitation")


def importer(line: str, name: str) -> str:
    """Name the command that makes records of a source, by its first line.

    Args:
        line: not blank, and no JSON object.
        name: of the source in messages.

    Returns:
        what was found, and the command to type; empty where it may be a record that went wrong.
    """
    file, start = _quoted(name), line.lstrip()
    if start.startswith("<"):
        annotated = next((form for root, form in _ANNOTATED.items() if root in start), None)
        if annotated:
            return f"found XML, expected records; type bmtools import {annotated} {file}"
        if "xml" in start[:5] or any(root in start for root in _PUBMED):
            return f"found XML, expected records; for PubMed's, type bmtools import pubmed {file}"
        if start[:14].lower().startswith(("<html", "<!doctype html")):
            return f"found HTML, expected records; type bmtools import html {file}"
        return (f"found markup ({start[:20]}), expected records; take the text out, then type "
                "bmtools import text FILE")
    if line.startswith("-DOCSTART-") or _TAGGED.fullmatch(line):
        return f"found tagged tokens, expected records; type bmtools import conll {file}"
    if _PUBTATOR.match(line):
        return f"found PubTator's lines, expected records; type bmtools import pubtator {file}"
    if _STANDOFF.match(line):
        return ("found id|text, expected records; type bmtools import standoff "
                f"{file} --annotations FILE")
    if start.startswith("["):
        return ("found a JSON list, expected one JSON object a line; "
                f"type jq -c '.[]' {file} | bmtools import jsonl")
    if start.rstrip() == "{" or start.startswith(('{"data"', '{"contexts"', '{"version"')):
        return ("found one JSON object over several lines, expected one a line; type "
                f"jq -c . {file} | bmtools import jsonl, or bmtools import curated {file} for "
                "BioBIT's maskings")
    return _table_conversion([line], name)


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
    if start.startswith(("<?xml", *(f"<{root}" for root in _PUBMED))):
        return f"found XML, expected plain text; for PubMed's, type bmtools import pubmed {file}"
    if start.startswith('{"'):
        return f"found JSON Lines, expected plain text; type bmtools import jsonl {file}"
    if len(lines) >= _TAGGED_LINES and all(map(_TAGGED.fullmatch, lines)):
        return f"found tagged tokens, expected plain text; type bmtools import conll {file}"
    return _table_conversion(lines, name) or None


_SUFFIXES = (".csv", ".tsv")
_SEPARATORS = "\t,;"
_NAME = re.compile(r"[^\W\d](?:[\w .()/%#-]{0,38}[\w)%#])?")
TEXT_NAMES = ("text", "abstract", "testo", "sentence", "content", "note", "body", "question")
"""Columns and keys that hold the text of a record in tables made elsewhere."""
ID_NAMES = ("id", "pmid", "pubmedid", "record_id", "doc_id", "index")
"""Columns that hold its id."""
_KNOWN = frozenset((*TEXT_NAMES, *ID_NAMES, "title", "label", "tag", "type", "source", "lang"))
_COLUMNS_SHOWN = 4


class _Table(NamedTuple):
    rows: list[list[str]]
    separator: str

    @property
    def has_header(self) -> bool:
        """Whether the first row names columns: short, distinct, and no numbers."""
        header = self.rows[0]
        return len(set(header)) == len(header) and all(map(_NAME.fullmatch, header))

    def column(self, names: Sequence[str]) -> int | None:
        """Find the first column with one of the names."""
        header = [name.lower() for name in self.rows[0]]
        return next((header.index(name) for name in names if name in header), None)

    def text_column(self) -> int:
        """Find the column of the text: by its name, else the one with the longest values."""
        named = self.column(TEXT_NAMES) if self.has_header else None
        if named is not None:
            return named
        widths = [sum(map(len, column)) for column in zip(*self.rows, strict=False)]
        return widths.index(max(widths))


def _table_conversion(lines: Sequence[str], name: str) -> str:
    """Describe a table by its first lines, and name the command that makes records of it.

    A file counts as one if it is named .csv or .tsv and its first line has several columns, or if
    that line names columns and others follow with as many.

    Args:
        lines: first lines, whole ones.
        name: of the source in messages.

    Returns:
        what was found, and the command; empty where this is no table.
    """
    table = _read_table(lines, name)
    if table is None:
        return ""
    header, text = table.rows[0], table.text_column()
    shown = ", ".join(header[:_COLUMNS_SHOWN])[:60] + ", ..." * (len(header) > _COLUMNS_SHOWN)
    if table.has_header:
        number = table.column(ID_NAMES)
        id_column = "" if number is None else f" --id-column {shlex.quote(header[number])}"
        options = f"{id_column} --text-column {shlex.quote(header[text])}"
    else:
        options = f" --no-header --text-column {text + 1}"
    return (f"found a table of {len(header)} columns ({shown}); "
            f"type bmtools import table {_quoted(name)}{options}")


def _read_table(lines: Sequence[str], name: str) -> _Table | None:
    path = PurePath(name)
    suffix = PurePath(path.stem).suffix if path.suffix in UNPACK else path.suffix
    for separator in _SEPARATORS:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE) \
            if separator == "\t" else csv.reader(lines, delimiter=separator)
        try:
            rows = list(filter(None, reader))
        except csv.Error:  # cells too long for a table
            continue
        if not rows or len(rows[0]) == 1:
            continue
        table = _Table(rows, separator)
        if suffix.lower() in _SUFFIXES:
            return table
        followed = len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows)
        known = not _KNOWN.isdisjoint(one.lower() for one in rows[0])
        if table.has_header and (known if len(rows) == 1 else followed and (
                known or _has_numbers(rows[1:]))):
            return table
    return None


def _has_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether some column holds numbers alone."""
    return any(all(re.fullmatch(r"-?\d+(?:[.,]\d+)?", one.strip()) for one in column)
               for column in zip(*rows, strict=True))
