"""Parts of pages: charts as wide as a phone, each with a table of the figures that it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from bmtools.study.reports.drawing import (
    LINE,
    PALE,
    SERIES,
    Canvas,
    Plot,
    drawing_style,
    page_canvas,
)
from bmtools.study.reports.labels import printable, truncate, wrap_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | int | float | None
FONT_SIZE = 11.6 * 72 / 96  # CSS pixels
_ROW, _SERIES, _MARGIN, _PLOT, _LEGEND = 15, 13, 50, 210, 17  # heights in pixels
_LABEL_WIDTH, _LEGEND_WIDTH = 17, 44
_MARKERS = "osD^vP*"
_STYLE: dict[str, Any] = {
    "font.size": FONT_SIZE, "axes.labelsize": FONT_SIZE, "xtick.labelsize": FONT_SIZE,
    "ytick.labelsize": FONT_SIZE, "legend.fontsize": FONT_SIZE, "legend.frameon": False,
    "legend.handlelength": 1.2, "legend.borderpad": 0, "xtick.major.size": 0, "xtick.minor.size": 0,
    "ytick.major.size": 0, "ytick.minor.size": 0, "axes.spines.top": False, "axes.axisbelow": True,
    "axes.spines.right": False, "axes.spines.left": False, "axes.grid": True, "grid.color": LINE,
    "grid.linewidth": 0.7, "lines.markersize": 4}


class Estimate(NamedTuple):
    """A value with the ends of its interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float, interval: Sequence[float] | None) -> Estimate:
        """Make one of a value and its interval."""
        return cls(value, *interval or (None, None))


class Point(NamedTuple):
    """A point of a curve."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    """A line of points.

    Args:
        points: in order.
        borders: where phases end, but the last one.
        marks: further points beside the line, such as those on held-out text.
    """

    points: Sequence[Point]
    borders: Sequence[float] = ()
    marks: Sequence[Point] = ()


@dataclass(frozen=True)
class Table:
    """Rows of words and figures under a header; the first column names a row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Chart:
    """A plot and the figures in it."""

    plot: Plot
    table: Table


@dataclass(frozen=True)
class Branch:
    """Content in a tree of what it was made of.

    Args:
        anchor: its id in the page.
        name: as its users call it.
        facts: what it is, and how it was made.
        is_repeated: whether it stands further up with what it was made of.
        branches: what it was made of.
    """

    anchor: str
    name: str
    facts: str
    is_repeated: bool
    branches: Sequence[Branch]


@dataclass
class Section:
    """A part of a page.

    Args:
        anchor: id of its heading.
        title: the heading.
        note: what to know when reading it.
        charts: each with its table.
        tables: further ones.
        branches: trees.
    """

    anchor: str
    title: str
    note: str = ""
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)


def page_style() -> AbstractContextManager[None]:
    """Set the style of charts on pages."""
    return drawing_style(**_STYLE)


def dot_chart(name: str, title: str, unit: str, rows: Sequence[str],
              series: Mapping[str, Sequence[Estimate | None]], log: bool = False) -> Chart:
    """Draw values and intervals as points beside the names of rows.

    Args:
        name: unique in the page.
        title: a few words.
        unit: of the values.
        rows: names, from the top.
        series: values of each row by the name of a series; one alone needs no name.
        log: scale.
    """
    room = _ROW + _SERIES * len(series)
    with page_style():
        canvas = page_canvas(_MARGIN + _LEGEND * _legend_rows(series) + room * len(rows))
        axes, handles = canvas.figure.add_subplot(), []
        for number, values in enumerate(series.values()):
            offset = (number - (len(series) - 1) / 2) * _SERIES / room
            known = [(row + offset, one) for row, one in enumerate(values) if one is not None]
            colour = SERIES[number % len(SERIES)]
            for row, one in known:
                if one.low is not None and one.high is not None:
                    axes.hlines(row, one.low, one.high, color=colour, linewidth=1.6)
            handles += axes.plot([one.value for _, one in known], [row for row, _ in known],
                                 color=colour, marker=_MARKERS[number % len(_MARKERS)],
                                 linestyle="", markersize=5)
        axes.set_yticks(range(len(rows)), [wrap_path(printable(row), _LABEL_WIDTH, 2)
                                           for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(unit)
        _scale(axes, "x", log)
        _legend(canvas, handles, series)
        plot = canvas.finish(name, "svg", title, f"{title}. " + "; ".join(
            f"{row} {key * (len(series) > 1)}".strip() + f": {short(found.value)}"
            for number, row in enumerate(rows) for key, values in series.items()
            if (found := values[number]) is not None))
    named = len(series) > 1
    spread = any(one and one.low is not None for values in series.values() for one in values)
    return Chart(plot, Table(title, ["", *["of"] * named, unit, *["from", "to"] * spread], [
        [row, *[key] * named, *found[:1 + 2 * spread]]
        for number, row in enumerate(rows) for key, values in series.items()
        if (found := values[number]) is not None]))


def line_chart(name: str, title: str, axis: tuple[str, str],
               curves: Mapping[str, Curve], log: bool = False, joined: bool = False,
               diagonal: bool = False) -> Chart:
    """Draw curves over one another.

    Args:
        name: unique in the page.
        title: a few words.
        axis: names of both axes.
        curves: by their names.
        log: scale of the first axis.
        joined: draw a line from curve to curve, where each is a point.
        diagonal: draw where both axes, from 0 to 1, agree.
    """
    with page_style():
        canvas = page_canvas(_PLOT + _LEGEND * _legend_rows(curves))
        axes, handles = canvas.figure.add_subplot(), []
        if joined:
            path = [point for curve in curves.values() for point in curve.points]
            axes.plot([point.x for point in path], [point.y for point in path], color=PALE,
                      linewidth=1)
        if diagonal:
            axes.plot((0, 1), (0, 1), color=PALE, linestyle="--", linewidth=1)
        for number, curve in enumerate(curves.values()):
            colour = SERIES[number % len(SERIES)]
            xs, ys = [point.x for point in curve.points], [point.y for point in curve.points]
            handles += axes.plot(xs, ys, color=colour, marker=_MARKERS[number % len(_MARKERS)],
                                 markevery=max(1, len(xs) // 8), linewidth=1.6)
            for point in curve.points:
                if point.low is not None and point.high is not None:
                    axes.vlines(point.x, point.low, point.high, color=colour, linewidth=1.6)
            axes.plot([point.x for point in curve.marks], [point.y for point in curve.marks],
                      color=colour, marker="x", linestyle="", markersize=5.5, markeredgewidth=1.6)
            for border in curve.borders:
                axes.axvline(border, color=colour, linewidth=1, linestyle=(0, (2, 2)))
        axes.set_xlabel(axis[0])
        axes.set_ylabel(axis[1])
        _scale(axes, "x", log)
        _legend(canvas, handles, curves)
        plot = canvas.finish(name, "svg", title, f"{title}. " + "; ".join(
            f"{key} ends at {short(curve.points[-1].y)}, {short(curve.points[-1].x)} {axis[0]}"
            for key, curve in curves.items()))
    rows: list[list[Cell]] = [
        [key, kind, *point] for key, curve in curves.items()
        for kind, points in (("", curve.points), ("held-out", curve.marks)) for point in points]
    spread = any(row[-1] is not None for row in rows)
    marked = any(row[1] for row in rows)
    return Chart(plot, Table(title, ["", *["of"] * marked, *axis, *["from", "to"] * spread], [
        [row[0], *row[1:2] * marked, *row[2:4 + 2 * spread]] for row in rows]))


def _legend_rows(names: Mapping[str, object]) -> int:
    return len(names) if len(names) > 1 else 0


def _legend(canvas: Canvas, handles: Sequence[Any], names: Mapping[str, object]) -> None:
    if len(names) > 1:
        canvas.figure.legend(handles, [truncate(printable(name), _LEGEND_WIDTH) for name in names],
                             loc="outside lower left")


def _scale(axes: Axes, which: str, log: bool) -> None:
    """Give an axis few ticks with short numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    own = axes.xaxis if which == "x" else axes.yaxis
    if log:
        axes.set_xscale("log")
        own.set_minor_formatter(NullFormatter())
        low, high = own.get_view_interval()
        own.set_major_locator(LogLocator(
            subs=(1.0,) if high > 1000 * low else (1.0, 2.0, 5.0), numticks=5))
    else:
        own.set_major_locator(MaxNLocator(4))
    own.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(value: float) -> str:
    """Spell a number of an axis: 1.5M, 20k, 0.25."""
    for size, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{sign}"
    return f"{value:.4g}"
