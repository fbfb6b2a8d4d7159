"""Tables of annotations by tab, and the texts that they belong to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from bmtools.corpus.formats.sets.mentions import Lose, Span
from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.folders import whole_json
from bmtools.io.sources import read_lines, source_name

Row = tuple[str, str, list[str]]
"""The place of a line, the line, its columns."""
Annotation = TypeVar("Annotation")
_OFFSET = re.compile(r"-?\d{1,18}")


class Table:
    """The columns of a table, by what they hold.

    Args:
        columns: what each holds, for messages.
        name: what a line is.
        plural: what lines are.
    """

    def __init__(self, *columns: str, name: str, plural: str) -> None:
        self.columns, self.name, self.plural = columns, name, plural

    def split(self, line: str, place: str) -> list[str]:
        """Split a line; another number of columns is an error."""
        found = line.split("\t")
        if len(found) != len(self.columns):
            raise RecordError(place, f"found {len(found)} columns in {line[:40]!r}, expected "
                                     f"{len(self.columns)} of one {self.name} by tab: "
                                     f"{', '.join(self.columns)}", line)
        return found


def rows(lines: Iterable[tuple[int, str]], name: str, table: Table,
         reject: Reject) -> Iterator[Row]:
    """Yield the lines of a table that are not blank; those that do not fit go to `reject`.

    Args:
        lines: with their numbers.
        name: of their file.
        table: its columns.
        reject: receives lines with another number of columns.
    """
    for number, line in lines:
        if line.strip():
            place = f"{source_name(name)}:{number}"
            try:
                yield place, line, table.split(line, place)
            except RecordError as error:
                reject(error)


def by_document(names: Iterable[str], table: Table,
                read: Callable[[str, str, list[str]], tuple[str, Annotation]],
                lose: Lose, reject: Reject) -> dict[str, list[Annotation]]:
    """Read annotations by the id of their document; repeated lines are taken once.

    Args:
        names: files of the table.
        table: its columns.
        read: makes document and annotation of place, line and columns; may raise a `RecordError`.
        lose: receives repeated lines.
        reject: receives lines that cannot be read.
    """
    found: dict[str, list[Annotation]] = defaultdict(list)
    seen = set()
    for name in names:
        for place, line, columns in rows(read_lines(name), name, table, reject):
            if line in seen:
                lose(f"repeated {table.plural} left out", place, "found this line once more", line)
                continue
            seen.add(line)
            try:
                document, annotation = read(place, line, columns)
            except RecordError as error:
                reject(error)
                continue
            found[document].append(annotation)
    return found


def lose_absent(annotations: Mapping[str, Iterable[Any]], documents: Collection[str], what: str,
                lose: Lose) -> None:
    """Count annotations of documents that no file of texts contains."""
    for document, waiting in annotations.items():
        for one in waiting if document not in documents else ():
            lose(what, one.place, f"found the document {document!r}, which no file of texts "
                 "contains", one.content)


def offsets(start: str, end: str, place: str, line: str, blanks: bool = True) -> Span:
    """Read two offsets; with `blanks` around them or not.

    Raises:
        RecordError: they are no whole numbers.
    """
    found = (start.strip(), end.strip()) if blanks else (start, end)
    if not all(map(_OFFSET.fullmatch, found)):
        raise RecordError(place, f"found the offsets {start[:20]!r} and {end[:20]!r}, expected "
                                 "whole numbers", line)
    return int(start), int(end)


def abstract_sections(title: str, abstract: str, gap: int = 1) -> dict[str, Any]:
    """Return `meta` with the sections of a title, a blank and an abstract."""
    if not (title and abstract):
        return {}
    return {"meta": {"sections": [
        {"label": "TITLE", "start": 0, "end": len(title)},
        {"label": "ABSTRACT", "start": len(title) + gap, "end": len(title) + gap + len(abstract)}]}}


def json_texts(content: str, name: str, reject: Reject) -> Iterator[tuple[str, str, str]]:
    """Yield id, text and place of the texts in BioBIT's JSON.

    Raises:
        DataError: no JSON, or without a list under `data`; a blank file has no texts.
    """
    if not content.strip():
        return
    found = whole_json(content, name, "an object with 'data'")
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, list):
        raise DataError(f"{source_name(name)}: found no list under 'data', expected texts with "
                        "PMID and Testo")
    for number, item in enumerate(data):
        place = f"{source_name(name)} (data[{number}])"
        document, text = (item.get("PMID"), item.get("Testo")) if isinstance(item, dict) else (
            None, None)
        if isinstance(document, str) and document and isinstance(text, str):
            yield document, text, place
        else:
            reject(RecordError(place, "found no PMID or no Testo, expected both as text", item))
