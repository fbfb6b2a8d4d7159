"""Foreign content: files that are not UTF-8 text or records, and the command that converts them."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from bmtools.errors import DataError

_STDIN = "<stdin>"
TOKENS = "tagged tokens"
HEAD_BYTES = 1 << 13
"""Number of bytes at the start of a source that are examined."""
UNPACK = {".gz": "gunzip -c", ".zst": "zstd -dc", ".zstd": "zstd -dc"}
"""Commands that unpack a file, by its ending."""
# Pattern of the first bytes, their meaning, and the command that makes text; `{}` is the file.
_BYTES = tuple((re.compile(pattern, re.DOTALL), found, remedy) for pattern, found, remedy in (
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "UTF-32", "iconv -f UTF-32 -t UTF-8 {} > utf8.txt"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 {} > utf8.txt"),
    (rb"(?:[^\0]\0){4}", "UTF-16", "iconv -f UTF-16LE -t UTF-8 {} > utf8.txt"),
    (rb"(?:\0[^\0]){4}", "UTF-16", "iconv -f UTF-16BE -t UTF-8 {} > utf8.txt"),
    (rb"%PDF", "a PDF", "bmtools import pdf {}"),
    (rb"PAR1", "a Parquet file", "bmtools import parquet {}"),
    (rb"BZh", "a bzip2 file", "bzip2 -dc {}, and a pipe into this command"),
    (rb"\xfd7zXZ", "an xz file", "xz -dc {}, and a pipe into this command"),
    (rb"{\\rtf|PK\x03\x04.*word/", "a Word document",
     "pandoc -t plain --wrap=none {} | bmtools import text --paragraphs"),
    (rb"PK\x03\x04.*xl/", "an Excel workbook", "save it as CSV in UTF-8 first"),
    (rb"PK\x03\x04.*application/epub", "an EPUB", "bmtools import epub {}"),
    (rb"PK\x03\x04|.{257}ustar", "an archive", "unpack it and name its files"),
))
_FIRST, _MAY_BE_PROSE = 0, 1 << 30
# Pattern of lines, their meaning, the command that makes records of the file, and the number of
# lines that must exist and all match in a file that is not prose; _FIRST if the first line decides.
_LINES = tuple((re.compile(pattern), found, remedy, least) for pattern, found, remedy, least in (
    (r"<document\b", "XML", "bmtools import ddi {}", _FIRST),
    (r"<\?xml|<(?:PubmedArticle|MedlineCitation)(?:Set)?\b", "XML",
     "bmtools import pubmed {} if it is PubMed's", _FIRST),
    (r"(?i:<!doctype html|<(?:html|head|body)\b)", "markup", "bmtools import html {}", _FIRST),
    (r"<", "markup", "bmtools import html {}", _MAY_BE_PROSE),
    (r"-DOCSTART-|\S+(?:[\t ]+\S+){0,3}[\t ]+(?:O|[BIESLU](?:-\S+)?)\s*$", TOKENS,
     "bmtools import conll {}", 3),
    (r"[\w.-]+\|t\|", "PubTator's lines", "bmtools import pubtator {}", _FIRST),
    (r"\d{5,8}\|(?:[at]\|)?\S", "id|text", "bmtools import standoff {} --annotations FILE", 1),
    (r"\d+\|\S", "id|text", "bmtools import standoff {} --annotations FILE", 3),
    (r"[\w.-]+\|(?:[at]\|)?\S", "id|text", "bmtools import standoff {} --annotations FILE",
     _MAY_BE_PROSE),
    (r"[\w.-]+\t(?:[AT]\d*\t)?-?\d+\t\d+\t[^\t]+\t\S|\d{5,8}\t[A-Z]\w+\t\S+\t\S+(?:\t\S+)?\s*$"
     r"|\d+\t.*\tArg1:", "annotations", "bmtools import standoff TEXTS --annotations {}", 1),
    (r"T\d+\t\S+ \d+ \d+|[RE]\d+\t(?:\S+ )?\S+:\S|[AMN]\d+\t\S+ [TER]\d|\*\t|#\d+\t",
     "BRAT's annotations", "bmtools import brat {}", 1),
    (r'c=".*" \d+:\d+ \d+:\d+\|\|', "annotations of i2b2",
     "bmtools import i2b2-2010 on the folder of this file", 1),
    (r'\[\s*(?:[][{"]|$)', "a JSON list", "jq -c '.[]' {} | bmtools import jsonl", _FIRST),
    (r'{(?:\s*$|"data"|"contexts"|"version")', "one JSON object over several lines",
     "jq -c . {} | bmtools import jsonl, or bmtools import curated {} for BioBIT's maskings",
     _FIRST)))
_JSON_LINES = (re.compile(r'{"'), "JSON Lines", "bmtools import jsonl {}", _FIRST)
_TEXT_NAMES = ("text", "abstract", "testo", "sentence", "content", "note", "body", "question")
_LONGEST_NAME = 60  # of a column
_ID_NAMES = ("id", "pmid", "pubmedid", "record_id", "doc_id", "index")


def foreign_bytes(head: bytes, name: str) -> str | None:
    """Describe content that is not UTF-8 text, with the command that converts it.

    Args:
        head: first bytes, decompressed, without a UTF-8 BOM.
        name: name of the source in messages.

    Returns:
        a one-line message, or None if the bytes may be UTF-8.
    """
    for pattern, found, remedy in _BYTES:
        if pattern.match(head):
            return f"found {found}, expected UTF-8 text; type {_command(remedy, name)}"
    if b"\0" in head:
        return f"found the NUL byte {head.index(0) + 1}, expected UTF-8 text, not a binary file"
    return None


def not_utf8(line: bytes, start: int, name: str) -> str:
    """Describe the byte of a line that is not UTF-8, with the command that fixes the file.

    Args:
        line: the line that could not be decoded.
        start: index of the first invalid byte.
        name: name of the source in messages.
    """
    if line.decode("utf-8", "ignore").isascii():
        fix = "as Windows-1252 it is a letter: type iconv -f WINDOWS-1252 -t UTF-8 {} > utf8.txt"
    else:
        fix = ("the line also has UTF-8 letters, so this byte is damaged: fix it, or drop all "
               "such bytes by iconv -c -f UTF-8 -t UTF-8 {} > utf8.txt")
    return f"byte {start + 1} is not UTF-8; {_command(fix, name)}"


def refuse_foreign(line: str, place: str, expected: str = "records") -> None:
    """Raise an error that names the command to type, if a first line is in another format.

    Args:
        line: a line that is not blank and could not be read.
        place: its `file:line`.
        expected: content that the command expects.

    Raises:
        DataError: the line is the first one, and its format is known.
    """
    name, _, number = place.rpartition(":")
    for pattern, found, remedy, _ in _LINES * (number == "1"):
        if found != expected and pattern.match(line.lstrip()):
            raise DataError(f"{place}: found {found}, expected {expected}; type "
                            f"{_command(remedy, name)}")
    if number == "1" and expected != TOKENS and (table := _table(line, name)):
        raise DataError(f"{place}: {table}")


def not_plain_text(head: bytes, name: str) -> str | None:
    """Describe content that is not plain text, even if it is UTF-8, with the command to type.

    Args:
        head: first bytes, decompressed, without a UTF-8 BOM.
        name: name of the source in messages.

    Returns:
        a one-line message, or None if it may be plain text.
    """
    fault = foreign_bytes(head, name)
    lines = head.decode("utf-8", "ignore").splitlines()
    if not head.endswith((b"\n", b"\r")):  # the last line may be cut off
        lines = lines[:-1] or lines
    lines = [line for line in lines if line.strip()]
    if fault or not lines:
        return fault
    for pattern, found, remedy, least in (*_LINES, _JSON_LINES):
        if len(lines) >= least and all(map(pattern.match, lines if least else lines[:1])):
            return f"found {found}, expected plain text; type {_command(remedy, name)}"
    return _table(lines[0], name) or None


def _command(remedy: str, name: str) -> str:
    """Insert the name of a source into a command; iconv gets the source decompressed."""
    file = "FILE" if name == _STDIN else shlex.quote(name)
    if "iconv" in remedy and (unpack := UNPACK.get(PurePath(name).suffix)):
        return remedy.replace("iconv", f"{unpack} {file} | iconv").replace(" {}", "")
    return remedy.replace("{}", file)


def _table(line: str, name: str) -> str:
    """Describe a table by its first line, and name the command that imports it.

    A file is a table if its first line has several columns, and either the file is named .csv or
    .tsv or one of these columns has a usual name for text.
    """
    is_named = {".csv", ".tsv"} & {suffix.lower() for suffix in PurePath(name).suffixes[-2:]}
    for separator in "\t,;":
        header = [column.strip().strip('"') for column in line.split(separator)]
        columns = {column.lower(): column for column in reversed(header)}
        text, number = ([columns[known] for known in names if known in columns][:1]
                        for names in (_TEXT_NAMES, _ID_NAMES))
        if len(header) > 1 and (is_named or (text and len(max(header, key=len)) < _LONGEST_NAME)):
            given = ",".join([*(f"id={column}" for column in number),
                              f"text={(text or ['COLUMN'])[0]}"])
            return (f"found a table of {len(header)} columns ({', '.join(header)[:60]}); type "
                    + _command(f"bmtools import table {{}} --columns {shlex.quote(given)}", name))
    return ""
