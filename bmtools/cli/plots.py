"""Plots of JSON Lines in a terminal: curves of training logs, bars of scores with intervals."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bmtools.cli.progress import Block
from bmtools.cli.tables import estimated
from bmtools.errors import BmtoolsError, DataError, count_of, did_you_mean, without_controls
from bmtools.installation import install_command
from bmtools.records import JsonMapping
from bmtools.statistics.table import get_nested, number_keys
from bmtools.values import format_estimate, heading, three_digits

if TYPE_CHECKING:
    from rich.console import RenderableType

Line = JsonMapping
_STEPS = ("step", "epoch")
_CURVES = ("loss", "learning_rate", "dev_loss")
_MOST_CURVES = 2
_SCORES = ("pppl", "mrr", "perplexity", "test_f1", "test_accuracy", "test_pearson", "f1",
           "macro_f1", "micro_f1", "pearson", "accuracy", "exact_match", "chrf", "average_cosine")
_LOGS = ("metrics", "seeds")
_COLOURS = ("blue", "red", "green", "magenta", "cyan", "yellow")
_MARKS = "*x+o#@"
_FINE = "hd"  # four dots a character
_BOXES = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-|+++++")
_TICKS = 5
_NAME_WIDTH = 30
_BAR_WIDTH = 10  # where names need to be cut
_LEAST_HEIGHT = 8
_REDRAW_SECONDS = 0.25
_MOST_TIME = 0.2  # of a core, for plots of many lines


@dataclass(frozen=True)
class PlotStyle:
    """Looks of a plot.

    Args:
        width: in characters.
        height: in lines, of curves.
        colour: whether the terminal has any.
        unicode: whether it has more than ASCII.
        log: axes that are logarithmic: x, y, both of them or none.
    """

    width: int = 80
    height: int = 20
    colour: bool = False
    unicode: bool = True
    log: str = ""


@dataclass(frozen=True)
class Curve:
    """Curve with a name.

    Args:
        name: of the file it is from.
        points: x and y of each.
    """

    name: str
    points: list[tuple[float, float]] = field(default_factory=list)


def require_plotext() -> None:
    """Check that plotext is installed.

    Raises:
        BmtoolsError: it is not.
    """
    try:
        import plotext  # noqa: F401
    except ImportError as error:
        raise BmtoolsError(f"plot: {error}; {install_command('plot')}") from error


def plots(lines: Sequence[tuple[str, Line]], x: str | None, keys: Sequence[str],
          style: PlotStyle) -> Iterator[str]:
    """Draw curves over a key where there is one, or else bars; yield a text for each key.

    Args:
        lines: each with the name of its file.
        x: key of the horizontal axis; steps or epochs where there are no scores of models.
        keys: of the vertical axis; the loss and the learning rate, or a known score.
        style: of all.

    Raises:
        DataError: no line has the keys.
    """
    objects = [line for _, line in lines]
    over = x or next((key for key in _STEPS if any(key in line for line in objects)), None)
    scores = _present(objects, keys or _SCORES, "model")
    if x is None and scores and (over is None or not keys):
        for key in scores if keys else scores[:1]:
            yield bars(key, list(_scores(objects, key)), style)
        return
    shown = _present(objects, keys or _CURVES, over)[:len(keys) or _MOST_CURVES] if over else []
    if not over or len(shown) < len(keys) or not shown:
        known = number_keys(objects, over or "model")
        missing = next((key for key in [*([x] if x else []), *keys] if key not in known), "")
        wanted = " and ".join(map(repr, filter(None, [over or "model", missing])))
        said = did_you_mean(missing, known) or (
            f"numbers are {', '.join(known)}" if known else "there are no numbers")
        raise DataError(f"no line has {wanted} and a number to plot; {said}")
    for key in shown:
        yield draw_curves(_curves(lines, over, key), over, key, style)


@contextmanager
def drawing_live(lines: Sequence[tuple[str, Line]], draw: Callable[[PlotStyle], list[str]],
                 style: PlotStyle, rows: int) -> Iterator[None]:
    """Show plots on the terminal of stderr, and draw them anew while lines come in.

    Args:
        lines: to which others are added.
        draw: draws the plots of the lines so far.
        style: of the plots; frames are lower where they would not fit.
        rows: lines of the terminal.
    """
    from rich.console import Group
    from rich.text import Text

    def drawn() -> RenderableType:
        # The last line is short, for the terminal writes ^C behind it, which may not wrap.
        so_far = Text(f"{count_of(len(lines), 'lines')} so far", "dim")
        try:
            texts = draw(style)
            if (over := len("\n\n".join(texts).splitlines()) + 2 - rows) > 0:
                lower = style.height - math.ceil(over / len(texts))
                texts = draw(replace(style, height=max(lower, _LEAST_HEIGHT)))
        except DataError:
            return so_far.append(", nothing to draw yet")
        return Group(Text.from_ansi("\n\n".join(texts), no_wrap=True, overflow="crop"), so_far)

    def run() -> None:
        shown, seconds = 0, 0.0
        while not ended.wait(max(_REDRAW_SECONDS, seconds / _MOST_TIME)):
            if len(lines) > shown:
                shown, began = len(lines), time.monotonic()
                block.show()
                seconds = time.monotonic() - began

    block, ended = Block(sys.stderr, drawn, style.width), threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        block.close()


def _present(lines: Iterable[Line], keys: Iterable[str], beside: str) -> list[str]:
    """Choose the keys that have a number in a line with another key."""
    with_key = [line for line in lines if get_nested(line, beside) is not None]
    return [key for key in keys if any(_estimate(line, key) for line in with_key)]


def _estimate(line: Line, key: str) -> tuple[float, Sequence[float] | None] | None:
    """Return a number of a line with its interval; None where there is none."""
    value = get_nested(line, key)
    bounds = get_nested(line, f"intervals.{key}")
    if key == estimated(line):
        bounds = line["interval"]
    if isinstance(value, Mapping) and "mean" in value:
        value, bounds = value["mean"], value.get("interval")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    is_interval = isinstance(bounds, list) and [isinstance(one, int | float) for one in bounds] == [
        True, True]
    return value, bounds if is_interval else None


def _curves(lines: Iterable[tuple[str, Line]], x: str, y: str) -> list[Curve]:
    """Gather the curves of each file; where x goes back, another one begins."""
    found: dict[str, list[Curve]] = {}
    for file, line in lines:
        at, value = _estimate(line, x), _estimate(line, y)
        if at is None or value is None:
            continue
        path = Path(file)
        name = path.parent.name if path.stem in _LOGS and path.parent.name else path.stem
        if "seed" in line:
            name += f" seed {line['seed']}"
        curves = found.setdefault(name, [Curve(name)])
        if curves[-1].points and at[0] < curves[-1].points[-1][0]:
            curves.append(Curve(f"{name} ({len(curves) + 1})"))
        curves[-1].points.append((at[0], value[0]))
    return [curve for curves in found.values() for curve in curves]


def _scores(lines: Iterable[Line], key: str) -> Iterator[tuple[str, float, Any]]:
    for line in lines:
        if "model" in line and (found := _estimate(line, key)):
            yield str(line["model"]), *found


def draw_curves(curves: Sequence[Curve], x: str, y: str, style: PlotStyle) -> str:
    """Draw curves into one frame, below the names of all."""
    import plotext

    figure = plotext.figure
    figure.clear().theme("colorless")
    plotext.terminal.limit(False, False)
    figure.plot_size(style.width, style.height)
    names = []
    points = [point for curve in curves for point in curve.points]
    scales = [_scale(axis in style.log and min(values) > 0)
              for axis, values in zip("xy", zip(*points, strict=True), strict=True)]
    for number, curve in enumerate(curves):
        colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
        fine = style.unicode and (style.colour or len(curves) == 1)
        placed = (list(map(scale, values)) for (scale, _), values in
                  zip(scales, zip(*curve.points, strict=True), strict=True))
        signal = figure.signal(*placed, marker=plotext.marker(_FINE if fine else mark, colour))
        figure.draw(signal.lines())
        name = f"{'▪' if fine else mark} {without_controls(curve.name)}"
        names.append(click.style(name, fg=colour) if style.colour else name)
    for axis, (scale, back), values in zip("xy", scales, zip(*points, strict=True), strict=True):
        least, most = scale(min(values)), scale(max(values))
        ticks = [least + (most - least) * number / (_TICKS - 1) for number in range(_TICKS)]
        figure.ruler(axis).ticks(ticks, [_short(back(tick)) for tick in ticks])
    title = f"{heading(y)} over {heading(x)}"
    fits = len(title) + sum(len(click.unstyle(name)) + 2 for name in names) < style.width
    text = figure.build().string(colorless=not style.colour)
    frame = "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
    return "\n".join([("  " if fits else "\n  ").join([f"{title}:", *names]),
                      frame if style.unicode else frame.translate(_BOXES)])


def _scale(is_log: bool) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return the functions from values to places and back."""
    return (math.log, math.exp) if is_log else (float, float)


def _short(value: float) -> str:
    """Format the number of a tick: 1.5k, 20M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            unit = 1e3 if letter == "k" else size
            return f"{three_digits(value / unit)}{letter}"
    return three_digits(value)


def bars(key: str, rows: Sequence[tuple[str, float, Sequence[float] | None]],
         style: PlotStyle) -> str:
    """Draw a bar for each row: its name, the bar with the interval, and the figures."""
    full, low_end, line, middle, high_end = "█├─┼┤" if style.unicode else "#|-+|"
    figures = [format_estimate(key, value, bounds) for _, value, bounds in rows]
    room = style.width - max(map(len, figures)) - 4
    longest = max(min(_NAME_WIDTH, room - _BAR_WIDTH), _NAME_WIDTH // 4)
    cut = [without_controls(name)[:longest] for name, *_ in rows]
    named = max(map(len, cut))
    width = max(room - named, _BAR_WIDTH // 2)
    ends = [end for _, value, bounds in rows for end in (value, *(bounds or ()))]
    least, most = min(0.0, *ends), max(0.0, *ends)

    def place(value: float) -> int:
        return round((value - least) / ((most - least) or 1.0) * (width - 1))

    lines = [heading(key)]
    for name, (_, value, bounds), text in zip(cut, rows, figures, strict=True):
        first, last = sorted((place(0.0), place(value)))
        cells = [full if first <= at <= last and value else " " for at in range(width)]
        if bounds:
            low, high = (place(bound) for bound in bounds)
            cells[low:high + 1] = [line] * (high + 1 - low)
            cells[low], cells[high] = low_end, high_end
            cells[place(value)] = middle
        lines.append(f"{name:<{named}}  {''.join(cells)}  {text}")
    return "\n".join(lines)
