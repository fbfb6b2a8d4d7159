"""Parts of pages: charts that fit a phone, each with a table of the numbers that it draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bmtools.io.output import new_file
from bmtools.study.reports.drawing import PALE, SERIES, written_figure
from bmtools.study.reports.labels import short, truncate, wrap_name
from bmtools.study.reports.pages import inline_svg

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

Cell = str | int | float | None
_WIDTH = 340  # in CSS pixels; fits the screen of a phone
_ROW, _SERIES, _MARGIN, _PLOT, _LEGEND = 15, 13, 50, 210, 17  # heights in pixels
_LABEL_WIDTH, _LEGEND_WIDTH = 17, 44
_TITLE, _MOST_COLUMNS, _MOST_APART = 30, 3, 6
_WIDE = 620  # width of a chart if two share a row of a window
# Series with the same one of seven colours have different markers.
_MARKERS = "".join("osD^vP*osD^vP*"[turn:turn + 7] for turn in range(7))


class Estimate(NamedTuple):
    """A value, with both ends of its interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float, interval: Sequence[float] | None) -> Estimate:
        """Make an estimate from a value and its interval."""
        return cls(value, *(interval or ())[:2])


class Point(NamedTuple):
    """A point of a curve, whose value may have an interval."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    """A line through points.

    Args:
        points: from left to right.
        borders: ends of all phases except the last one.
        breaks: borders where the objective changes; the line has a gap there.
        marks: points that the line does not connect, such as losses on held-out text.
        group: curves of the same group have the same colour and marker.
    """

    points: Sequence[Point]
    borders: Sequence[float] = ()
    breaks: Collection[float] = ()
    marks: Sequence[Point] = ()
    group: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers under a header. The first column contains the names of the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Chart:
    """A plot and its numbers.

    Args:
        table: the numbers; its title is the title of the chart.
        summary: description of the chart for people who cannot see it.
        height: in CSS pixels.
        draw: function that draws on axes and returns the entries of the legend by name.
    """

    table: Table
    summary: str
    height: float
    draw: Callable[[Axes], Mapping[str, Artist]]

    def draw_on(self, figure: FigureBase, columns: int = 1) -> None:
        """Draw the chart. Add a legend with this number of columns if it has several entries."""
        named = self.draw(figure.add_subplot())
        if len(named) > 1:
            figure.legend([*named.values()], [truncate(name, _LEGEND_WIDTH) for name in named],
                          loc="outside lower left", ncols=columns)

    def svg(self, name: str, is_wide: bool = False) -> Markup:
        """Draw the chart as an element of a page; `name` must be unique in the page."""
        stream, width = BytesIO(), _WIDE if is_wide else _WIDTH
        with written_figure(stream, "svg", width, self.height) as figure:
            self.draw_on(figure, columns=1 + is_wide)
        return inline_svg(stream.getvalue(), name, self.summary)


@dataclass(frozen=True)
class Branch:
    """A file or directory in a tree of inputs.

    Args:
        anchor: id of its element in the page.
        name: its name, after its role if the role has another name.
        facts: its kind, and how it was made.
        is_repeated: whether the tree already shows it and its inputs further up.
        branches: its inputs.
    """

    anchor: str
    name: str
    facts: str
    is_repeated: bool
    branches: Sequence[Branch]


Part = str | Chart | Table | Branch
"""An item of a section: a note, a chart, a table or a tree."""


class Section:
    """A section of a page, with items sorted by type. A chart's table is not in `tables`."""

    def __init__(self, title: str, parts: Sequence[Part]) -> None:
        self.anchor, self.title = title.partition(" ")[0].lower(), title
        self.note = " ".join(part for part in parts if isinstance(part, str))
        self.charts = [part for part in parts if isinstance(part, Chart)]
        self.tables = [part for part in parts if isinstance(part, Table)]
        self.branches = [part for part in parts if isinstance(part, Branch)]


def write_picture(charts: Sequence[Chart], path: Path) -> None:
    """Draw charts side by side in a file, whose suffix determines the format."""
    columns = min(len(charts), _MOST_COLUMNS)
    heights = [max(chart.height for chart in charts[start:start + columns]) + _TITLE
               for start in range(0, len(charts), columns)]
    with new_file(path) as stream, written_figure(
            stream, path.suffix.lower()[1:], _WIDTH * columns, sum(heights)) as figure:
        places = figure.subfigures(len(heights), columns, squeeze=False, height_ratios=heights)
        for place, chart in zip(places.flat, charts, strict=False):
            place.suptitle(chart.table.title)
            chart.draw_on(place)


def dot_chart(title: str, unit: str, rows: Sequence[str],
              series: Mapping[str, Sequence[Estimate | None]], log: bool = False,
              most_rows: int | None = None) -> Chart:
    """Draw values and intervals as points next to the names of rows.

    Args:
        title: a few words.
        unit: unit of the values.
        rows: names of the rows, from top to bottom.
        series: one value for each row, by name of the series. The name of a single series is not
            shown.
        log: use a logarithmic scale.
        most_rows: maximum number of rows to draw; the table always contains all rows.
    """
    series = {key: [one if one and one.value is not None else None for one in values]
              for key, values in series.items()}  # the value of an undefined score is null
    crowd, named = _SERIES * min(len(series), _MOST_APART), len(series) > 1
    room = _ROW + crowd
    shown = rows[:most_rows]
    known = [(row, key, found) for number, row in enumerate(rows)
             for key, values in series.items() if (found := values[number]) is not None]

    def draw(axes: Axes) -> dict[str, Artist]:
        handles: dict[str, Artist] = {}
        for number, (key, values) in enumerate(series.items()):
            offset = ((number + 0.5) / len(series) - 0.5) * crowd / room
            points = [(row + offset, one) for row, one in enumerate(values[:len(shown)])
                      if one is not None]
            colour = SERIES[number % len(SERIES)]
            for row, one in points:
                if one.low is not None and one.high is not None:
                    axes.hlines(row, one.low, one.high, color=colour, linewidth=1.6)
            [handles[key]] = axes.plot(
                [one.value for _, one in points], [row for row, _ in points], color=colour,
                marker=_MARKERS[number % len(_MARKERS)], linestyle="", markersize=5)
        axes.set_yticks(range(len(shown)), [wrap_name(row, _LABEL_WIDTH) for row in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlabel(unit)
        _scale(axes, log)
        return handles

    spread = any(found.low is not None for _, _, found in known)
    return Chart(
        Table(title, ["", *["of"] * named, unit, *["from", "to"] * spread], [
            [row, *[key] * named, *found[:1 + 2 * spread]] for row, key, found in known]),
        f"{title}. " + "; ".join(f"{row} {key * named}".strip() + f": {short(found.value)}"
                                 for row, key, found in known),
        _MARGIN + _LEGEND * len(series) * named + room * len(shown), draw)


def line_chart(title: str, axis: tuple[str, str], curves: Mapping[str, Curve], log: bool = False,
               joined: bool = False, diagonal: bool = False) -> Chart:
    """Draw several curves on the same axes.

    Args:
        title: a few words.
        axis: labels of the x axis and the y axis.
        curves: curves by name.
        log: use a logarithmic x axis.
        joined: connect the points of all curves by a line, for curves of one point each.
        diagonal: draw the line from (0, 0) to (1, 1), on which x and y are equal.
    """
    groups = list(dict.fromkeys(curve.group or key for key, curve in curves.items()))

    def draw(axes: Axes) -> dict[str, Artist]:
        handles: dict[str, Artist] = {}
        if joined:
            axes.plot(*_coordinates(point for curve in curves.values() for point in curve.points),
                      color=PALE, linewidth=1)
        if diagonal:
            axes.plot((0, 1), (0, 1), color=PALE, linestyle="--", linewidth=1)
        for key, curve in curves.items():
            number = groups.index(curve.group or key)
            colour = SERIES[number % len(SERIES)]
            [handles[f"{key}: {curve.group}" if curve.group else key]] = axes.plot(
                *_coordinates(curve.points, curve.breaks), color=colour, linewidth=1.6,
                marker=_MARKERS[number % len(_MARKERS)], markevery=max(1, len(curve.points) // 8))
            for point in curve.points:
                if point.low is not None and point.high is not None:
                    axes.vlines(point.x, point.low, point.high, color=colour, linewidth=1.6)
            axes.plot(*_coordinates(curve.marks), color=colour, marker="x", linestyle="",
                      markersize=5.5, markeredgewidth=1.6)
            for border in curve.borders:
                axes.axvline(border, color=colour, linewidth=1, linestyle=(0, (2, 2)))
        axes.set(xlabel=axis[0], ylabel=axis[1])
        _scale(axes, log)
        return handles

    rows: list[list[Cell]] = [
        [key, kind, *point, curve.group] for key, curve in curves.items()
        for kind, points in (("", curve.points), ("held-out", curve.marks)) for point in points]
    spread = any(row[-2] is not None for row in rows)
    marked, grouped = any(row[1] for row in rows), any(row[-1] for row in rows)
    return Chart(
        Table(title, ["", *["of"] * marked, *axis, *["from", "to"] * spread,
                      *["last corpus"] * grouped], [
            [row[0], *row[1:2] * marked, *row[2:4 + 2 * spread], *row[-1:] * grouped]
            for row in rows]),
        f"{title}. " + "; ".join(
            f"{key} ends at {short(curve.points[-1].y)}, {short(curve.points[-1].x)} {axis[0]}"
            for key, curve in curves.items()),
        _PLOT + _LEGEND * len(curves) * (len(curves) > 1), draw)


def _coordinates(points: Iterable[Point],
                 breaks: Collection[float] = ()) -> tuple[list[float], list[float]]:
    pairs = [pair for point in points
             for pair in [(point.x, point.y), *[(nan, nan)] * (point.x in breaks)]]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _scale(axes: Axes, log: bool) -> None:
    """Set the scale of the x axis, with few ticks and short numbers."""
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
