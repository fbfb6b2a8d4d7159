"""CSV and TSV tables whose columns become the keys of records."""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from bmtools.corpus.formats.settings import TableConfig
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import plain, xml_elements
from bmtools.errors import DataError, RecordError, setting, suggestion
from bmtools.io.record_size import most_bytes
from bmtools.io.sources import read_lines, source_name, source_stem
from bmtools.records import Record

_DELIMITERS = "\t,;|"
_ATTRIBUTE = "@"  # before names of attributes; "@" as first cell begins a row of column names
_SENTENCE = re.compile(r"(.+)_s\d+")  # BLUE's sentence ids: 11724768_s0


@reader
def table_records(names: Iterable[str], tally: Tally, config: TableConfig | None = None,
                  headless: Sequence[str] = ()) -> Iterator[Record]:
    """Yield a record for every line of tables.

    White space around values is removed, empty values are left out, and other named columns go
    to `meta`. Delimiter and header are detected in each file. Ids are from the id column, or
    `STEM:LINE`.

    Args:
        names: files, compressed or not; `-` for stdin.
        config: the meaning of each column.
        tally: rejects a line with too few columns, without text, or with a wrong label or score.
        headless: column names for files whose first line does not name the columns.

    Raises:
        DataError: a column does not exist, or a quote does not end.
    """
    config = config or TableConfig()
    for name in names:
        header: list[str] = []
        for place, raw in _xml_rows(name, config) if config.row else table_rows(name, config):
            row = [value.strip() for value in raw]
            if not header or raw[:1] == [_ATTRIBUTE]:
                header, is_header = _header(row, config, headless)
                columns = _find_columns(header, config, place)
                others = {one: number for number, one in enumerate(header)
                          if config.header and number not in columns.values() and one}
                if is_header:
                    continue
            with tally.rejecting():
                own_id = f"{source_stem(name)}:{place.rpartition(':')[2]}"
                yield _record(row, columns, others, len(header), config, own_id, place)


def _xml_rows(name: str, config: TableConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield the column names, then the values, of each element that is a row.

    Columns are the element's attributes, such as `@id`, and its children. Children with the same
    name share a column, with one line each.
    """
    root, _, element = config.row.partition("/")
    for found in xml_elements(name, (root,), (element,)):
        place, row = f"{source_name(name)}:{found.sourceline}", {_ATTRIBUTE: ""}
        row |= {f"{_ATTRIBUTE}{key}": str(value) for key, value in found.attrib.items()}
        for child in found:
            row[str(child.tag)] = f"{row.get(str(child.tag), '')}\n{plain(child)}"
        yield place, [*row]
        yield place, [*row.values()]


def sentences_of_documents(records: Iterable[Record]) -> Iterator[Record]:
    """Set `meta.document` from BLUE's sentence ids, such as `11724768_s0`."""
    for record in records:
        if found := _SENTENCE.fullmatch(record["id"]):
            record = record.replace(meta={**record.get("meta", {}), "document": found[1]})
        yield record


def table_rows(name: str, config: TableConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that are not blank, each with the place of its first line.

    Quoted fields may contain line breaks. In tab-separated files, quotes are ordinary characters,
    except in cells that pandas had to quote. Such cells are recognised because only with quoting
    does the row have the same number of columns as the first row.

    Raises:
        DataError: a quote does not end, or is followed by anything but a delimiter.
    """
    lines = (f"{line}\n" for _, line in read_lines(name))
    first = next(lines, "")
    delimiter = "\t" if config.delimiter == "tab" else config.delimiter or next(
        (one for one in _DELIMITERS if one in first), ",")  # tab has priority
    csv.field_size_limit(most_bytes())
    if delimiter == "\t" and config.quoting == "auto":
        for number, row in _tab_rows(chain([first], lines)):
            if any(map(str.strip, row)):
                yield f"{source_name(name)}:{number}", row
        return
    quoting = config.quoting != "off"
    rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True,
                      quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE)
    place = f"{source_name(name)}:1"
    try:
        for row in rows:
            if any(map(str.strip, row)):
                yield place, row
            place = f"{source_name(name)}:{rows.line_num + 1}"
    except csv.Error as error:
        raise DataError(f"{place}: found a damaged quoted field ({error}), expected a quote at "
                        f"its end; set {setting('quoting')} off to read quotes as characters"
                        ) from error


def _tab_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield tab-separated rows with the number of their first line; see `table_rows`."""
    waiting: deque[str] = deque()
    number, width = 1, 0

    def pull() -> str:
        return waiting.popleft() if waiting else next(lines, "")

    for line in iter(pull, ""):
        row, taken = line.rstrip("\n").split("\t"), [line]
        if width and any(cell.startswith('"') for cell in row):
            quoted = _quoted_row(taken, iter(pull, ""))
            if len(quoted) == width and (any(one.count("\t") + 1 != width for one in taken)
                                         or (len(taken) == 1 and '""' in line)):
                row = quoted
            else:
                waiting.extendleft(reversed(taken[1:]))
                taken = taken[:1]
        width = width or len(row)
        yield number, row
        number += len(taken)


def _quoted_row(taken: list[str], more: Iterator[str]) -> list[str]:
    """Read a row with quoted cells, adding its other lines to `taken`; empty if it is not one."""
    def lines() -> Iterator[str]:
        yield from taken[:1]
        for line in more:
            taken.append(line)
            yield line

    try:
        return next(csv.reader(lines(), delimiter="\t", strict=True))
    except csv.Error:
        return []


def _header(row: list[str], config: TableConfig, headless: Sequence[str]) -> tuple[list[str], bool]:
    """Return column names from the first row, or numbers, and whether that row is a header."""
    if headless and not set(config.by_key.values()) <= set(row):
        return list(headless), False
    return (row, True) if config.header else (list(map(str, range(1, len(row) + 1))), False)


def _find_columns(header: Sequence[str], config: TableConfig, place: str) -> dict[str, int]:
    """Find the index of each column that is read; names have priority over numbers.

    Raises:
        DataError: a column does not exist.
    """
    found = {}
    for key, column in config.by_key.items():
        if column in header:
            found[key] = header.index(column)
        elif column.isdecimal() and 0 < int(column) <= len(header):
            found[key] = int(column) - 1
        else:
            raise DataError(f"{place}: found no column {column!r}, {suggestion(column, header)}; "
                            f"name it with {setting('columns')}")
    return found


def _record(row: Sequence[str], columns: Mapping[str, int], others: Mapping[str, int], most: int,
            config: TableConfig, own_id: str, place: str) -> Record:
    """Make a record from a row.

    Raises:
        RecordError: see `table_records`.
    """
    if not max(columns.values()) < len(row) <= most:
        raise RecordError(place, f"found {len(row)} columns, expected {most} as in the first line",
                          list(row))
    value = {key: row[number] for key, number in columns.items()}
    if not value["text"]:
        raise RecordError(place, "found no text in the text column; correct the row, or choose "
                                 f"another column with {setting('columns')}", list(row))
    meta = {name: row[number] for name, number in others.items()
            if number < len(row) and row[number]}
    if value.get("document"):
        meta["document"] = value["document"]
    record = Record(id=value.get("id") or own_id, text=value["text"], place=place)
    record |= {key: value[key] for key in ("text_pair", "question") if value.get(key)}
    if "label" in value:
        label, names = value["label"], config.labels
        if not label or (names and label not in names):
            raise RecordError(place, f"found the label {label!r}, expected "
                                     f"{' or '.join(names) or 'the name of a class'}", list(row))
        record["label"] = names.get(label, label)
    if "score" in value:
        record["score"] = _number(value["score"], place, row)
    if "labels" in value:
        parts = map(str.strip, value["labels"].split(config.labels_separator))
        record["labels"] = list(dict.fromkeys(filter(None, parts)))
    if meta:
        record["meta"] = meta
    return record


def _number(value: str, place: str, row: Sequence[str]) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RecordError(place, f"found the score {value!r}, expected a number", list(row))
    return number
