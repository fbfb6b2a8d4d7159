"""Results on stdout, as tables on a terminal and otherwise as JSON Lines; the closing line."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path

import click

from bmtools.cli.options import Decorator, together, writes_plot, writes_records
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.tables import fitting_columns, flattened, print_lines, terminal_width
from bmtools.errors import count_of
from bmtools.io.failures import with_urls
from bmtools.io.output import STDOUT, write_records
from bmtools.records import JsonMapping
from bmtools.values import format_duration, heading

Line = JsonMapping
_AS_TABLE = "bmtools.as_table"
# Lines with one of these keys are reports of a run in progress.
_ROWS = {"split", "step", "epoch", "best_epoch"}


def _remember(ctx: click.Context, _param: click.Parameter, as_table: bool | None) -> None:
    ctx.meta[_AS_TABLE] = as_table


prints_results: Decorator = click.option(
    "--table/--json", "as_table", default=None, expose_value=False, callback=_remember,
    help="Print tables or JSON Lines (default: tables on a terminal).")
"""Add `--table/--json` to a command that reports results with `print_results`."""


def reports(what: str, plot: str = "") -> Decorator:
    """Add `--table/--json`, `--output` and, if there is something to draw, `--plot`."""
    return together(prints_results, *([writes_plot(plot)] if plot else []), writes_records(what))


def as_tables(step: CommandStep) -> None:
    """Show results as tables, like `--table`."""
    step.context.meta[_AS_TABLE] = True


def asks_for_tables(step: CommandStep) -> bool:
    """Return whether `--table` was given."""
    return bool(step.context.meta.get(_AS_TABLE))


def shows_tables(step: CommandStep, output: str = STDOUT) -> bool:
    """Return whether results go to stdout as tables instead of JSON Lines."""
    as_table = step.context.meta.get(_AS_TABLE)
    if as_table is None:
        return output == STDOUT and sys.stdout.isatty()
    return bool(as_table)


def print_results(step: CommandStep, lines: Iterable[Line], output: str = STDOUT,
                  print_tables: Callable[[Sequence[Line]], object] = print_lines) -> list[Line]:
    """Print the result lines of a command, as tables or JSON Lines, and return them.

    Args:
        step: the running command.
        lines: result lines; JSON Lines are written one by one as they arrive.
        output: file that always gets JSON Lines; stdout for `-`.
        print_tables: prints all lines together for people.
    """
    kept: list[Line] = []

    def keep(line: Line) -> Line:
        kept.append(line)
        return line

    if output != STDOUT:
        write_records(map(keep, lines), output, flush=True)
    elif shows_tables(step):
        kept.extend(lines)
    else:
        for line in lines:
            _write_line(step, keep(line))
    if shows_tables(step, output):
        with step.paused():
            print_tables(kept)
            sys.stdout.flush()
    return kept


def report_printer(step: CommandStep) -> Callable[[Line], None]:
    """Return a function that prints a report line while the command works."""
    return partial(_print_report if shows_tables(step) else _write_line, step)


def finish(step: CommandStep, what: str, leads_on: bool = True) -> None:
    """Print a command's closing line: its result, its duration and the next command.

    Args:
        step: the running command.
        what: the output and its most important value.
        leads_on: whether to suggest the declared next command.
    """
    if step.display is not None:
        hint = _next_command(step.context) if leads_on else ""
        say(f"{what} in {format_duration(step.display.seconds)}{hint}")


def _next_command(context: click.Context) -> str:
    """Return the next command to suggest; empty if its inputs are not files or directories."""
    text = getattr(context.command, "next_command", "")
    paths = {name: str(context.params[name] or STDOUT) for name in re.findall(r"{(\w+)}", text)}
    if not text or any(path == STDOUT or Path(path).is_char_device() for path in paths.values()):
        return ""
    quoted = {name: shlex.quote(path) for name, path in paths.items()}
    command, flag, target = text.format_map(quoted).rpartition(" -o ")
    names = (str(Path(target).with_stem(f"{Path(target).stem}-{n}")) for n in count(2))
    free = next(name for name in chain([target], names) if not flag or not Path(name).exists())
    return f"; next: bmtools {command}{flag}{free}"


def _write_line(step: CommandStep, line: Line) -> None:
    with step.paused():
        write_records([{name: with_urls(one) if isinstance(one, str) else one
                        for name, one in line.items()}], flush=True)


def _print_report(step: CommandStep, line: Line) -> None:
    """Print a line on a terminal: as the names and values that fit, or as a table."""
    with step.paused():
        if "stopped" in line or not _ROWS & line.keys():
            # Earlier rows have shown the last report; of the evaluation only scores are printed.
            print_lines([{**line, "evaluate": line.get("evaluate", {}).get("evaluate", []),
                          "last": []} if "checkpoint" in line else line])
        else:
            cells = flattened({name: value for name, value in line.items() if name != "of"})
            words = {name: f"{heading(name)} {cell}" for name, cell in cells.items()}
            print("  ".join(words[name] for name in fitting_columns([words], terminal_width())))
        sys.stdout.flush()


def records_written(records: int, counts: Mapping[str, int], output: str) -> str:
    """Return the number of records written, their output and other counts, as text."""
    totals = [f"{name}: {count:,}" for name, count in counts.items() if count]
    return "; ".join([count_of(records, "records") + to_output(output), *totals])


def to_output(output: str) -> str:
    """Return " to FILE" for a file, and an empty string for stdout."""
    return "" if output == STDOUT else f" to {output}"
