"""Parts of pages: charts as wide as a phone, each with a table of the figures that it draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bmtools.study.reports.drawing import (
    LINE,
    PAGE_DPI,
    PALE,
    SERIES,
    Canvas,
    Plot,
    drawing_style,
    new_figure,
)
from bmtools.study.reports.labels import printable, truncate, wrap_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.typing import RcKeyType

Cell = str | int | float | None
_FONT_SIZE = 11.6 * 72 / PAGE_DPI
_WIDTH = 340  # in CSS pixels, all of a phone's screen
_ROW, _SERIES, _MARGIN, _PLOT, _LEGEND = 15, 13, 50, 210, 17  # heights in pixels
_LABEL_WIDTH, _LEGEND_WIDTH = 17, 44
_MARKERS = "osD^vP*"
_STYLE: dict[RcKeyType, object] = {
    "font.size": _FONT_SIZE, "axes.labelsize": _FONT_SIZE, "xtick.labelsize": _FONT_SIZE,
    "ytick.labelsize": _FONT_SIZE, "legend.fontsize": _FONT_SIZE, "legend.frameon": False,
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
        return cls(value, *(interval or ())[:2])


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


@contextmanager
def page_canvas(height: float) -> Iterator[Canvas]:
    """Make an empty figure for a page, `height` CSS pixels high, whose caption the page shows."""
    with drawing_style(_STYLE):
        yield Canvas(new_figure(_WIDTH / PAGE_DPI, height / PAGE_DPI), captioned=False)


def dot_chart(name: str, title: str, unit: str, rows: Sequence[str],
              series: Mapping[str, Sequence[Estimate | None]]) -> Chart:
    """Draw values and intervals as points beside the names of rows.

    Args:
        name: unique in the page.
        title: a few words.
        unit: of the values.
        rows: names, from the top.
        series: values of each row by the name of a series; one alone needs no name.
    """
    room, named = _ROW + _SERIES * len(series), len(series) > 1
    known = [(row, key, found) for number, row in enumerate(rows)
             for key, values in series.items() if (found := values[number]) is not None]
    with page_canvas(_MARGIN + _LEGEND * len(series) * named + room * len(rows)) as canvas:
        axes, handles = canvas.figure.add_subplot(), []
        for number, values in enumerate(series.values()):
            offset = (number - (len(series) - 1) / 2) * _SERIES / room
            points = [(row + offset, one) for row, one in enumerate(values) if one is not None]
            colour = SERIES[number % len(SERIES)]
            for row, one in points:
                if one.low is not None and one.high is not None:
                    axes.hlines(row, one.low, one.high, color=colour, linewidth=1.6)
            handles += axes.plot([one.value for _, one in points], [row for row, _ in points],
                                 color=colour, marker=_MARKERS[number % len(_MARKERS)],
                                 linestyle="", markersize=5)
        axes.set_yticks(range(len(rows)), [wrap_path(printable(row), _LABEL_WIDTH, 2)
                                           for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(unit)
        _scale(axes)
        _add_legend(canvas, handles, series)
        plot = canvas.finish(name, "svg", title, f"{title}. " + "; ".join(
            f"{row} {key * named}".strip() + f": {short(found.value)}"
            for row, key, found in known))
    spread = any(found.low is not None for _, _, found in known)
    return Chart(plot, Table(title, ["", *["of"] * named, unit, *["from", "to"] * spread], [
        [row, *[key] * named, *found[:1 + 2 * spread]] for row, key, found in known]))


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
    with page_canvas(_PLOT + _LEGEND * len(curves) * (len(curves) > 1)) as canvas:
        axes, handles = canvas.figure.add_subplot(), []
        if joined:
            axes.plot(*_coordinates(point for curve in curves.values() for point in curve.points),
                      color=PALE, linewidth=1)
        if diagonal:
            axes.plot((0, 1), (0, 1), color=PALE, linestyle="--", linewidth=1)
        for number, curve in enumerate(curves.values()):
            colour = SERIES[number % len(SERIES)]
            handles += axes.plot(*_coordinates(curve.points), color=colour, linewidth=1.6,
                                 marker=_MARKERS[number % len(_MARKERS)],
                                 markevery=max(1, len(curve.points) // 8))
            for point in curve.points:
                if point.low is not None and point.high is not None:
                    axes.vlines(point.x, point.low, point.high, color=colour, linewidth=1.6)
            axes.plot(*_coordinates(curve.marks), color=colour, marker="x", linestyle="",
                      markersize=5.5, markeredgewidth=1.6)
            for border in curve.borders:
                axes.axvline(border, color=colour, linewidth=1, linestyle=(0, (2, 2)))
        axes.set(xlabel=axis[0], ylabel=axis[1])
        _scale(axes, log)
        _add_legend(canvas, handles, curves)
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


def _coordinates(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    pairs = [(point.x, point.y) for point in points]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _add_legend(canvas: Canvas, handles: Sequence[Line2D], names: Mapping[str, object]) -> None:
    if len(names) > 1:
        canvas.figure.legend(handles, [truncate(printable(name), _LEGEND_WIDTH) for name in names],
                             loc="outside lower left")


def _scale(axes: Axes, log: bool = False) -> None:
    """Give the first axis few ticks with short numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        low, high = axes.xaxis.get_view_interval()
        axes.xaxis.set_major_locator(LogLocator(
            subs=(1.0,) if high > 1000 * low else (1.0, 2.0, 5.0), numticks=5))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(value: float) -> str:
    """Spell a number of an axis: 1.5M, 20k, 0.25."""
    for size, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{sign}"
    return f"{value:.4g}"
