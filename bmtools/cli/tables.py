"""Tables of given cells and of result lines, formatted for people."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from bmtools.errors import without_controls
from bmtools.records import JsonMapping, JsonObject
from bmtools.values import format_cell, format_estimate, heading

Line = JsonMapping
_UNLIMITED_WIDTH = 10_000
_HEIGHT = 25  # without a height, rich assumes that a dumb terminal has 80 columns
_PADDING = 2
_NAME_WIDTH = 30
_BAR_WIDTH = 20
# Columns that a narrow table shows first; other columns follow in their order.
_PREFERRED = (
    "model", "compared", "metric", "method", "vocabulary", "scope", "recipe", "split", "fold",
    "seed", "step", "epoch", "phase", "masking", "mask_rate", "corruption", "value", "name", "loss",
    "mlm_accuracy", "dev_loss", "dev.f1", "dev.macro_f1", "dev.accuracy", "pppl", "mrr",
    "f1", "macro_f1", "micro_f1", "pearson", "exact_match", "strict_accuracy", "mean", "precision",
    "recall", "perplexity", "average_cosine", "difference", "p_holm", "hits_at_1", "hits_at_10",
    "accuracy", "dev.precision", "dev.recall", "best_epoch", "test.f1", "test.macro_f1",
    "test.accuracy", "test_f1", "tokens_per_second", "seconds_left", "bits_per_character",
    "sentences", "maskings", "records", "title", "phases", "entities", "tokens", "unknown", "words",
    "learning_rate", "memory_gib", "steps", "batch_size", "hours")
# Values in the unit of the line's `metric`: percent for shares.
_OF_METRIC = ("mean", "seeds_interval", "documents_interval", "median", "deviation", "difference")
# Identifiers that people look up but do not compare.
_LAST = ("signature", "vocabulary", "data", "state")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None,
                text_columns: int = 1, whole_columns: int = 1) -> None:
    """Print a table; as Markdown if stdout is not a terminal.

    Cells are never truncated, and wrap only at the width of a terminal.

    Args:
        header: names of the columns.
        rows: cells.
        title: text above the table.
        text_columns: number of leading columns aligned left; other columns contain numbers.
        whole_columns: number of leading columns whose cells do not wrap unless they are long.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # Text for a pipe or file may be pasted into a document.
    looks: JsonObject = {"box": box.MARKDOWN}
    if sys.stdout.isatty():
        looks = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(header_style="bold", border_style="bright_black", **looks)
    cells = [[without_controls(str(cell)) for cell in row] for row in rows]
    for number, name in enumerate(map(without_controls, header)):
        is_text = number < text_columns
        widest = max([*(len(row[number]) for row in cells), *map(len, name.split())])
        table.add_column(name, justify="left" if is_text else "right", overflow="fold",
                         min_width=None if is_text and number >= whole_columns
                         else min(widest, _NAME_WIDTH))
    for row in cells:
        table.add_row(*row)
    if title:
        print_renderable(Text(without_controls(title), "bold"), sys.stdout)
    print_renderable(table, sys.stdout)


def print_tables(tables: Iterable[Any]) -> None:
    """Print tables that have a title, a header and rows of words and numbers."""
    for number, table in enumerate(tables):
        if number:
            print()
        texts = [[isinstance(cell, str) for cell in row] for row in zip(*table.rows, strict=True)]
        columns = len([*itertools.takewhile(all, texts)])
        print_table(table.header, [[format_cell(cell) for cell in row] for row in table.rows],
                    table.title, columns, min(columns, 2))


def print_lines(lines: Sequence[Line]) -> None:
    """Print result lines as tables: a single line as names and values, several as rows.

    Lines that share most of their keys share a table. It contains the most important columns that
    fit the terminal; a line below names the other keys.
    """
    for number, group in enumerate(_grouped([row for line in lines for row in _unfolded(line)])):
        if number:
            print()
        if len(group) == 1 and len(lines) == 1:
            _print_names(group[0])
        else:
            _print_rows(group)


def flattened(line: Line, prefix: str = "") -> JsonObject:
    """Flatten objects to dotted keys, and join values with their intervals, as text.

    Counts by name, means with deviations, and lists stay in one cell.
    """
    cells: JsonObject = {}
    bounds = {**line.get("intervals", {}), estimated(line): line.get("interval")}
    for key, value in line.items():
        name = prefix + key
        if key == "intervals" or (key == "interval" and estimated(line)):
            continue
        if isinstance(value, Mapping) and value and not _is_one_value(value):
            cells |= flattened(value, f"{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            continue  # lists of objects are for programs only
        elif value not in ({}, []):
            is_of_metric = key in _OF_METRIC and isinstance(line.get("metric"), str)
            cells[name] = format_estimate(line["metric"] if is_of_metric else name, value,
                                          bounds.get(key))
    return cells


def estimated(line: Line) -> str | None:
    """Return the key whose value the line's `interval` describes: the first float of the line."""
    if not line.get("interval"):
        return None
    keys = [key for key, value in line.items()
            if isinstance(value, float) and key not in ("mask_rate", "p", "p_holm")]
    return keys[0] if keys else None


def fitting_columns(rows: Sequence[Mapping[str, str]], width: int,
                    always: Sequence[str] = ()) -> list[str]:
    """Choose the columns that fit a table, the most important ones first; keep their order.

    Args:
        rows: cells by key.
        width: width of the terminal.
        always: columns that are chosen before all others.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    order = {name: (name not in always, name in _LAST, _PREFERRED.index(name) if name in _PREFERRED
                    else len(_PREFERRED)) for name in names}
    chosen: set[str] = set()
    for name in sorted(names, key=order.__getitem__):
        if name in _LAST and "signature" in names:
            continue
        needed = max(len(heading(name)), *(len(row.get(name, "")) for row in rows)) + _PADDING
        if needed <= width or not chosen:
            chosen.add(name)
            width -= needed
    return [name for name in names if name in chosen]


def terminal_width(stream: TextIO | None = None) -> int:
    """Return the width of a stream's terminal (default: stdout), or COLUMNS, or no limit."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return _UNLIMITED_WIDTH
    stated = os.environ.get("COLUMNS", "")
    try:
        return int(stated if stated.isdigit() else 0) \
            or os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _print_rows(lines: Sequence[Line]) -> None:
    from rich.text import Text

    rows = [flattened(line) for line in lines]
    names = dict.fromkeys(name for row in rows for name in row)
    identities = [*itertools.takewhile(
        lambda name: not any(_is_number(line, name) for line in lines), names)]
    columns = fitting_columns(rows, terminal_width(), always=identities)
    print_table([heading(name) for name in columns],
                [[row.get(name, "") for name in columns] for row in rows],
                text_columns=len(identities), whole_columns=len(identities))
    others = [heading(name) for name in names if name not in columns]
    if others:
        print_renderable(Text(f"--json shows more: {', '.join(others)}", "dim"), sys.stdout)


def _print_names(line: Line) -> None:
    cells = {heading(name): cell for name, cell in flattened(line).items()}
    width = max(map(len, cells), default=0)
    for name, cell in cells.items():
        print(f"{without_controls(name):<{width}}{' ' * _PADDING}{without_controls(cell)}")


def draw_bars(values: Sequence[object]) -> list[str]:
    """Draw a bar for the size of each number; the largest size fills the column."""
    sizes = [abs(value) if isinstance(value, int | float) else 0.0 for value in values]
    mark = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    unit = _BAR_WIDTH / (max(sizes, default=0.0) or 1.0)
    return [f"{mark * round(size * unit):<{_BAR_WIDTH}}" for size in sizes]


def print_renderable(renderable: Any, stream: TextIO) -> None:
    """Print rich output, without escape codes if the stream is not a terminal."""
    from rich.console import Console

    is_tty = stream.isatty()
    # Names are text, not markup. A pipe gets no escape codes, whatever the environment says.
    console = Console(file=stream, width=terminal_width(stream), height=_HEIGHT, markup=False,
                      emoji=False, highlight=False, force_terminal=is_tty,
                      color_system="auto" if is_tty else None)
    with console.capture() as printed:
        console.print(renderable)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    stream.write("\n".join(line for line in lines if line or is_tty) + "\n")


def _unfolded(line: Line) -> Iterator[Line]:
    """Yield a line without its scores by group, then one line for each group."""
    yield {key: value for key, value in line.items() if key != "by"}
    first = next(iter(line))
    for key, values in line.get("by", {}).items():
        for value, scores in values.items():
            yield {first: line[first], key: value, **scores}


def _grouped(lines: Sequence[Line]) -> list[list[Line]]:
    """Group lines that share their first two keys, and half of all keys, with the group's first."""
    groups: list[list[Line]] = []
    for line in lines:
        for group in groups:
            known = group[0].keys()
            if list(line)[:2] == list(known)[:2] \
                    and 2 * len(line.keys() & known) >= len(line.keys() | known):
                group.append(line)
                break
        else:
            groups.append([line])
    return groups


def _is_one_value(value: JsonMapping) -> bool:
    return {"mean", "deviation"} <= set(value) or \
        all(isinstance(one, int) and not isinstance(one, bool) for one in value.values())


def _is_number(line: Line, name: str) -> bool:
    value: Any = line
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return isinstance(value, int | float | Mapping) and not isinstance(value, bool)
