"""Drawing with matplotlib, without a display; the same numbers give the same bytes."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bmtools.io.output import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# On light and on dark paper; colour-blind readers tell the first ones apart, too (Okabe and Ito).
COLOURS = {
    "ink": ("#1f2328", "#e6edf3"), "faint": ("#59636e", "#9da7b1"), "paper": ("#ffffff", "#14181d"),
    "line": ("#d1d9e0", "#3d444d"), "mark": ("#cdeee2", "#14503c"), "pale": ("#8c959f", "#6e7781"),
    "strong": ("#0072b2", "#58a6ff"), "worse": ("#d55e00", "#ff8c42"),
    "better": ("#009e73", "#2fc796"), "pink": ("#b5569a", "#e58fc8"),
    "ochre": ("#946b00", "#e0b341"), "violet": ("#5b3fa8", "#a99bf5"),
    "same": ("#7d8590", "#8b949e"), "open": ("#ffe7a3", "#5c4a12"),
    "ramp-1": ("#0d0887", "#8fa8ff"),
    "ramp-2": ("#6a00a8", "#b58cff"), "ramp-3": ("#b12a90", "#e07ad0"),
    "ramp-4": ("#d8576b", "#ff8a8a"), "ramp-5": ("#cc6a1f", "#ffab5e"),
    "ramp-6": ("#a07800", "#f0d24a")}
INK, FAINT, PAPER, LINE, MARK, PALE, STRONG, WORSE, BETTER, *_MORE = (
    light for light, _ in COLOURS.values())
SERIES = (STRONG, WORSE, BETTER, *_MORE[:4])
SAME, RAMP = SERIES[-1], tuple(_MORE[5:])
ImageFormat = Literal["svg", "png"]
PNG_DPI = 150
_SVG_DPI = 72
PAGE_DPI = 96  # CSS pixels
GROUP = 0.8  # share of the room that a group of bars takes; the rest is the gap to the next
# Names are text, not formulas, and words of an SVG stay words: to be searched, read aloud, and
# drawn by the reader's own fonts where a script needs others.
_STYLE: dict[RcKeyType, object] = {
    "text.parse_math": False, "svg.hashsalt": "bmtools", "svg.fonttype": "none",
    "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"], "text.color": INK,
    "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": FAINT, "ytick.color": FAINT,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "figure.facecolor": PAPER,
    "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "path.simplify": False}
_NO_DATE: dict[str, dict[str, None]] = {
    ".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_NO_DATE_NOR_SOFTWARE: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


@contextmanager
def drawing_style(more: Mapping[RcKeyType, object] | None = None) -> Iterator[None]:
    """Set matplotlib's parameters for a while: text is never a formula, and ids repeat."""
    from matplotlib import rc_context

    with rc_context({**_STYLE, **(more or {})}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def figure_file(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Draw a figure of `width` by `height` inches, then write it in the format of its suffix."""
    suffix = path.suffix.lower()
    with drawing_style(), new_file(path) as stream:
        figure = new_figure(width, height)
        yield figure
        figure.savefig(stream, format=suffix[1:], dpi=PNG_DPI, metadata=_NO_DATE[suffix])


def panels(figure: Figure, count: int, columns: int,
           heights: Sequence[float] | None = None) -> list[Axes]:
    """Divide a figure into rows of panels, whose last one may end with empty places.

    Args:
        figure: to divide.
        count: number of panels.
        columns: panels in a row.
        heights: of the rows, in relation to each other; equal by default.
    """
    axes: list[Axes] = [*figure.subplots(-(-count // columns), columns, squeeze=False,
                                         height_ratios=heights).flat]
    for empty in axes[count:]:
        empty.set_axis_off()
    return axes[:count]


def bar_places(rows: int, number: int, bars: int, room: float = GROUP) -> list[float]:
    """Return the middles of one series of bars, whose groups are centred at 0, 1, 2 ...

    Args:
        rows: number of groups.
        number: of the series, from 0.
        bars: in a group.
        room: that the bars of a group take.
    """
    return [row + (number + 0.5) * (room / bars) - room / 2 for row in range(rows)]


@dataclass(frozen=True, slots=True)
class Plot:
    """A finished image and its description.

    Args:
        name: of the file, without its suffix.
        format: svg or png.
        title: a few words.
        caption: content and omissions.
        image: the bytes of the file.
        tooltips: text shown where the pointer rests on a part of an svg, by the part's id.
    """

    name: str
    format: ImageFormat
    title: str
    caption: str
    image: bytes
    tooltips: Mapping[str, str]

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.name}.{self.format}"


@dataclass(slots=True)
class Canvas:
    """A figure while it is drawn.

    Args:
        figure: to draw into.
        captioned: whether the caption is part of the image.
        tooltips: of its parts, by id.
    """

    figure: Figure
    captioned: bool = True
    tooltips: dict[str, str] = field(default_factory=dict)

    def size(self, points: float) -> float | None:
        """Return the size of small print; None, the style's own size, on pages."""
        return points if self.captioned else None

    def finish(self, name: str, image_format: ImageFormat, title: str, caption: str) -> Plot:
        """Write the caption below the figure and render it."""
        if self.captioned:
            width = int(self.figure.get_figwidth() * 15)
            self.figure.supxlabel(textwrap.fill(caption, width), fontsize=8, color=FAINT, x=0.01,
                                  ha="left", linespacing=1.3)
        stream = BytesIO()
        self.figure.savefig(stream, format=image_format,
                            dpi=PNG_DPI if image_format == "png" else _SVG_DPI,
                            metadata=_NO_DATE_NOR_SOFTWARE[image_format])
        return Plot(name, image_format, title, caption, stream.getvalue(), self.tooltips)
