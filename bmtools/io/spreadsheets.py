"""Tables in CSV or TSV given for text or records, and the command that converts them."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

_SUFFIXES = (".csv", ".tsv")
_COMPRESSED = (".gz", ".zst", ".zstd")
_SEPARATORS = "\t,;"
_NAME = re.compile(r"[^\W\d](?:[\w .()/%#-]{0,38}[\w)%#])?")
_TEXT_NAMES = ("text", "abstract", "testo", "sentence", "content", "note", "body", "question")
_ID_NAMES = ("id", "pmid", "pubmedid", "record_id", "doc_id", "index")
_KNOWN = frozenset((*_TEXT_NAMES, *_ID_NAMES, "title", "label", "tag", "type", "source", "lang"))
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
        named = self.column(_TEXT_NAMES) if self.has_header else None
        if named is not None:
            return named
        widths = [sum(map(len, column)) for column in zip(*self.rows, strict=False)]
        return widths.index(max(widths))


def table_conversion(lines: Sequence[str], name: str) -> str:
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
    file = "FILE" if name == "<stdin>" else shlex.quote(name)
    unpack = {".gz": "gunzip -c", ".zst": "zstd -dc", ".zstd": "zstd -dc"}.get(
        PurePath(name).suffix, "cat")
    options = ', delimiter="\\t", quoting=3' if table.separator == "\t" else \
        ', delimiter=";"' * (table.separator == ";")
    if table.has_header:
        number = table.column(_ID_NAMES)
        id_key = "" if number is None else f" --id-key {shlex.quote(header[number])}"
        make = (f"python3 -c 'import csv, json, sys; [print(json.dumps(row)) for row in "
                f"csv.DictReader(sys.stdin{options})]' | bmtools import jsonl{id_key} "
                f"--text-key {shlex.quote(header[text])}")
    elif table.separator == "\t":
        make = f"cut -f {text + 1} | bmtools import text"
    else:
        make = (f"python3 -c 'import csv, sys; [print(row[{text}]) for row in "
                f"csv.reader(sys.stdin{options})]' | bmtools import text")
    return f"found a table of {len(header)} columns ({shown}); type {unpack} {file} | {make}"


def _read_table(lines: Sequence[str], name: str) -> _Table | None:
    path = PurePath(name)
    suffix = PurePath(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    for separator in _SEPARATORS:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE) \
            if separator == "\t" else csv.reader(lines, delimiter=separator)
        rows = list(filter(None, reader))
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
