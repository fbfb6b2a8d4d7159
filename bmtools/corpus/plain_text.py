"""Plain text: lines, paragraphs or whole files as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from bmtools.io.jsonl import read_lines, source_name, source_stem
from bmtools.records import Record


class Unit(StrEnum):
    """Unit of text for one record."""

    LINE = "line"
    PARAGRAPH = "paragraph"
    FILE = "file"


def text_records(names: Iterable[str], unit: Unit = Unit.LINE) -> Iterator[Record]:
    """Yield the lines, paragraphs or files that hold more than white space.

    Only `\\n` ends a line; a `\\r` before it is dropped. A blank line ends a paragraph. Lines
    inside a paragraph or a file stay lines. Ids are `STEM:LINE` with the line that a record begins
    on, or `STEM` for a whole file.

    Args:
        names: text files, compressed or not; `-` for stdin.
        unit: of one record; FILE holds one file at a time in memory.
    """
    for name in names:
        for number, text in _blocks(name, unit):
            place = f"{source_name(name)}:{number}"
            name_of = source_stem(name) if unit is Unit.FILE else f"{source_stem(name)}:{number}"
            yield Record(id=name_of, text=text, place=place)


def _blocks(name: str, unit: Unit) -> Iterator[tuple[int, str]]:
    """Yield the blocks of lines that make a record, with the number of the first line."""
    lines: list[str] = []
    first = 1
    for number, line in read_lines(name):
        content = line.removesuffix("\r")
        if not content.strip():
            if unit is not Unit.FILE:
                yield from _block(first, lines)
                lines = []
                continue
            if not lines:
                continue
        if not lines:
            first = number
        lines.append(content)
        if unit is Unit.LINE:
            yield from _block(first, lines)
            lines = []
    yield from _block(first, lines)


def _block(first: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    if lines:
        yield first, "\n".join(lines).strip()
