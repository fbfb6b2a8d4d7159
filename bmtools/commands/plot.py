"""`bmtools plot`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from shutil import get_terminal_size

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Command, takes_files
from bmtools.cli.progress import is_terminal
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import terminal_width
from bmtools.errors import DataError
from bmtools.io.jsonl import read_objects
from bmtools.io.sources import STDIN
from bmtools.io.system import Ended, interruption
from bmtools.records import JsonObject

_LOG = {"x": "x", "y": "y", "both": "xy"}
_PIPE_WIDTH = 80


@click.command("plot", cls=Command, examples=(
    "bmtools plot run/metrics.jsonl --y loss",
    "bmtools plot scores.jsonl --y pppl"),
    groups={"Plot": "x y log width height"},
    meanings={"files": "JSON Lines of any command, plain, .gz or .zst; none or - means stdin."})
@takes_files
@click.option("--x", metavar="KEY", help="Key of the horizontal axis, as tokens_seen; without it, "
                                         "steps or epochs, or bars where lines have scores.")
@click.option("--y", "keys", metavar="KEY", multiple=True,
              help="Key to draw, through objects with dots; may be repeated. Without it, the loss "
                   "and the learning rate, or the first known score.")
@click.option("--log", type=Choice(list(_LOG)), help="Logarithmic axes.")
@click.option("--width", type=click.IntRange(min=40), metavar="N",
              help="Characters; those of the terminal without it, 80 in a pipe.")
@click.option("--height", type=click.IntRange(min=8), default=16, show_default=True, metavar="N",
              help="Lines of a frame of curves.")
def command(step: CommandStep, files: tuple[str, ...], x: str | None, keys: tuple[str, ...],
            log: str | None, width: int | None, height: int) -> None:
    """Draw training logs as curves and scores as bars, in the terminal.

    Curves of several files share a frame. Bars have the intervals of their scores. Colours and
    characters are those that the terminal has; NO_COLOR leaves colours out. On a terminal the plot
    of stdin is drawn anew while lines come in, and stays when they end, or with Ctrl-C.
    """
    from bmtools.cli.plots import PlotStyle, drawing_live, plots, require_plotext

    require_plotext()
    names = step.sources(files)
    encoding = (sys.stdout.encoding or "").lower()
    on_terminal = is_terminal(sys.stdout)
    style = PlotStyle(width or (terminal_width() if on_terminal else _PIPE_WIDTH), height,
                      on_terminal and not os.environ.get("NO_COLOR"), encoding.startswith("utf"),
                      _LOG.get(log or "", ""))
    lines: list[tuple[str, JsonObject]] = []

    def draw(style: PlotStyle) -> list[str]:
        return list(plots(lines[:], x, keys, style))

    def show() -> None:
        with step.paused():
            print("\n\n".join(draw(style)), flush=True)

    is_live = STDIN in names and on_terminal and is_terminal(sys.stderr) and not sys.stdin.isatty()
    if is_live:
        step.hide_status()
    try:
        with drawing_live(lines, draw, style, get_terminal_size().lines) if is_live \
                else nullcontext():
            for name in names:
                for _, line in read_objects(name):
                    lines.append((name, line))
        interruption.check()
    except Ended:
        if is_live:
            with suppress(DataError):
                show()
        raise
    show()
