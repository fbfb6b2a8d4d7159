"""Tables, CSV or TSV, whose columns become the keys of records."""

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
_ATTRIBUTE = "@"  # before names of attributes; alone it begins the names of columns of an element
_SENTENCE = re.compile(r"(.+)_s\d+")  # of BLUE's ids of sentences: 11724768_s0


@reader
def table_records(names: Iterable[str], tally: Tally, config: TableConfig | None = None,
                  headless: Sequence[str] = ()) -> Iterator[Record]:
    """Yield a record for every line of tables.

    White space around values is removed, empty values are left out, and further named columns go
    to `meta`. Delimiter and header are found file by file. Ids are those of the id column, or
    `STEM:LINE`.

    Args:
        names: files, compressed or not; `-` for stdin.
        config: which column is what.
        tally: rejects a line with too few columns, without text, or with a wrong label or score.
        headless: names of the columns of files whose first line does not name them.

    Raises:
        DataError: no such column, or a quote that does not end.
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
    """Yield the names of columns of each element that is a row, then its values.

    Columns are its attributes, as `@id`, and its children; those of one name have a line each.
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
    """Set `meta.document` by BLUE's ids of sentences: `11724768_s0`."""
    for record in records:
        if found := _SENTENCE.fullmatch(record["id"]):
            record = record.replace(meta={**record.get("meta", {}), "document": found[1]})
        yield record


def table_rows(name: str, config: TableConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that are not blank, each after the place of its first line.

    Fields may hold line breaks in quotes. Between tabs,
    quotes are letters, but for those of cells that pandas had to quote: only with them do rows
    have as many columns as the first.

    Raises:
        DataError: a quote that does not end, or is followed by more than a delimiter.
    """
    lines = (f"{line}\n" for _, line in read_lines(name))
    first = next(lines, "")
    delimiter = "\t" if config.delimiter == "tab" else config.delimiter or next(
        (one for one in _DELIMITERS if one in first), ",")  # tab before all others
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
        raise DataError(f"{place}: found a quoted field that goes wrong ({error}), expected a "
                        f"quote at its end; {setting('quoting')} off takes quotes for letters"
                        ) from error


def _tab_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows by tab after the number of their first line; see `table_rows`."""
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
    """Read a row with quoted cells, add its further lines to `taken`; nothing if it is none."""
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
    """Name the columns, by the first row or by numbers; tell whether that row holds names."""
    if headless and not set(config.by_key.values()) <= set(row):
        return list(headless), False
    return (row, True) if config.header else (list(map(str, range(1, len(row) + 1))), False)


def _find_columns(header: Sequence[str], config: TableConfig, place: str) -> dict[str, int]:
    """Find the index of each column that is read, by name before number.

    Raises:
        DataError: there is no such column.
    """
    found = {}
    for key, column in config.by_key.items():
        if column in header:
            found[key] = header.index(column)
        elif column.isdecimal() and 0 < int(column) <= len(header):
            found[key] = int(column) - 1
        else:
            raise DataError(f"{place}: found no column {column!r}, {suggestion(column, header)}; "
                            f"{setting('columns')} names it")
    return found


def _record(row: Sequence[str], columns: Mapping[str, int], others: Mapping[str, int], most: int,
            config: TableConfig, own_id: str, place: str) -> Record:
    """Make a record of a row.

    Raises:
        RecordError: see `table_records`.
    """
    if not max(columns.values()) < len(row) <= most:
        raise RecordError(place, f"found {len(row)} columns, expected {most} as in the first line",
                          list(row))
    value = {key: row[number] for key, number in columns.items()}
    if not value["text"]:
        raise RecordError(place, "found nothing in the column of the text, expected text; "
                                 f"{setting('columns')} names another", list(row))
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
