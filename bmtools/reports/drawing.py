"""Drawing with matplotlib, without a display; the same numbers give the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bmtools.errors import BmtoolsError, setting
from bmtools.installation import install_command
from bmtools.io.output import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that colour-blind readers tell apart, too (Okabe and Ito).
BETTER, WORSE, SAME, STRONG = "#009e73", "#d55e00", "#9a9a9a", "#0072b2"
INK, FAINT = "#1f2328", "#6e7781"
ImageFormat = Literal["svg", "png"]
SUFFIXES = (".png", ".svg", ".pdf")
PNG_DPI = 150
_SVG_DPI = 72
# Names are text, not formulas.
_STYLE = {"text.parse_math": False, "svg.hashsalt": "bmtools"}
_NO_DATE: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_NO_DATE_NOR_SOFTWARE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def require_matplotlib() -> None:
    """Check that matplotlib is installed, before any work is done.

    Raises:
        BmtoolsError: it is not.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise BmtoolsError(
            f"{setting('plot')}: {error}; {install_command('plot')}") from error


@contextmanager
def drawing_style(**more: Any) -> Iterator[None]:
    """Set matplotlib's parameters for a while: text is never a formula, and ids repeat."""
    from matplotlib import rc_context

    style: Any = {**_STYLE, **more}
    with rc_context(style):
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
    """A figure while it is drawn, with the tooltips of its parts by id."""

    figure: Figure
    tooltips: dict[str, str] = field(default_factory=dict)

    def finish(self, name: str, image_format: ImageFormat, title: str, caption: str) -> Plot:
        """Write the caption below the figure and render it."""
        width = int(self.figure.get_figwidth() * 15)
        self.figure.supxlabel(textwrap.fill(caption, width), fontsize=8, color=FAINT, x=0.01,
                              ha="left", linespacing=1.3)
        stream = BytesIO()
        self.figure.savefig(stream, format=image_format,
                            dpi=PNG_DPI if image_format == "png" else _SVG_DPI,
                            metadata=_NO_DATE_NOR_SOFTWARE[image_format])
        return Plot(name, image_format, title, caption, stream.getvalue(), self.tooltips)
