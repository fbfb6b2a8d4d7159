"""Rows of a table, collected from JSON Lines of several models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bmtools.errors import DataError, did_you_mean
from bmtools.values import format_cell

_BREAKDOWNS = ("by", "types", "sample")


def gather_rows(lines: Iterable[Mapping[str, object]], key: str,
                columns: Sequence[str]) -> list[list[str]]:
    """Join lines with the same value of a key into rows, in order of appearance.

    Args:
        lines: objects; lines without the key are ignored.
        key: key whose value identifies a row.
        columns: keys to show; a dot reaches into objects, such as `test_f1.mean`.

    Returns:
        a row for each value of the key: that value, then a cell for each column, which is empty
        if it is in no line. Later lines replace values from earlier lines.

    Raises:
        DataError: if no line has one of the columns.
    """
    rows: dict[str, dict[str, str]] = {}
    known: dict[str, None] = {}
    for line in lines:
        if key in line:
            known |= dict.fromkeys(name for name, _ in _keys(line))
            cells = rows.setdefault(str(line[key]), {})
            found = {column: get_nested(line, column) for column in columns}
            cells |= {column: format_cell(value) for column, value in found.items()
                      if value is not None}
    for column in columns:
        if not any(column in cells for cells in rows.values()):
            meant = did_you_mean(column, known) or "name other columns"
            raise DataError(f"no line has both {key!r} and {column!r}; {meant}")
    return [[name, *(cells.get(column, "") for column in columns)] for name, cells in rows.items()]


def number_keys(lines: Iterable[Mapping[str, object]], key: str) -> list[str]:
    """List the keys of numbers in lines that have a key, including keys in objects, in order.

    Args:
        lines: objects.
        key: key whose value identifies a row.
    """
    found = {name: None for line in lines if key in line for name, value in _keys(line, _BREAKDOWNS)
             if isinstance(value, int | float) and name != key}
    return [*found]


def get_nested(line: object, path: str) -> Any:
    """Return the value of a key, through objects if it has dots; None if it is missing.

    Names in objects may also contain dots.
    """
    if not isinstance(line, Mapping):
        return None
    if path in line:
        return line[path]
    found = (get_nested(value, path.removeprefix(f"{name}.")) for name, value in line.items()
             if path.startswith(f"{name}."))
    return next((value for value in found if value is not None), None)


def _keys(line: Mapping[str, object], without: Collection[str] = (),
          prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the keys of an object with their values, and with dots the keys of nested objects."""
    for name, value in line.items():
        yield prefix + name, value
        if isinstance(value, Mapping) and name not in without:
            yield from _keys(value, without, f"{prefix}{name}.")
