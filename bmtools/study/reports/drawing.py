"""Drawing with matplotlib, without a display; the same numbers give the same bytes.

Images on pages take the page's theme: their colours are variables of its style.
"""

from __future__ import annotations

import base64
import re
import struct
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from bmtools.io.output import new_file

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

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
_VARIABLES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
ImageFormat = Literal["svg", "png"]
PNG_DPI = 150
PAGE_WIDTH = 340
"""Width of a chart of a page in CSS pixels, all of a phone's screen."""
_SVG_DPI = 72
_PAGE_DPI = 96  # CSS pixels
# Names are text, not formulas, and words of an SVG stay words: to be searched, read aloud, and
# drawn by the reader's own fonts where a script needs others.
_STYLE: dict[str, Any] = {
    "text.parse_math": False, "svg.hashsalt": "bmtools", "svg.fonttype": "none",
    "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"], "text.color": INK,
    "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": FAINT, "ytick.color": FAINT,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "figure.facecolor": PAPER,
    "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "path.simplify": False}
# What matplotlib names by itself, and nothing refers to.
_OWN_ID = re.compile(r"[A-Za-z0-9.]+_\d+")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_NO_DATE: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_NO_DATE_NOR_SOFTWARE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


@contextmanager
def drawing_style(**more: Any) -> Iterator[None]:
    """Set matplotlib's parameters for a while: text is never a formula, and ids repeat."""
    from matplotlib import rc_context

    style: Any = {**_STYLE, **more}
    with rc_context(style), warnings.catch_warnings():
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


def page_canvas(height: float) -> Canvas:
    """Make an empty figure for a page, `height` CSS pixels high; its caption is the page's."""
    return Canvas(new_figure(PAGE_WIDTH / _PAGE_DPI, height / _PAGE_DPI), captioned=False)


def page_image(plot: Plot) -> Markup:
    """Embed an image in a page: an svg as an element, a png as data."""
    from markupsafe import Markup

    if plot.format == "svg":
        return Markup(_inline_svg(plot))
    width, height = (pixels * _PAGE_DPI // PNG_DPI
                     for pixels in struct.unpack(">II", plot.image[16:24]))
    return Markup('<img alt="{}" width="{}" height="{}" src="data:image/png;base64,{}">').format(
        plot.caption, width, height, base64.b64encode(plot.image).decode("ascii"))


def _inline_svg(plot: Plot) -> str:
    """Turn an SVG file into an element of a page: with ids of its own, tooltips, no namespaces.

    Ids that two plots share would make the second borrow from the first.
    """
    root = ElementTree.fromstring(plot.image)
    for parent in list(root.iter()):
        parent.tag = parent.tag.rpartition("}")[2]
        for child in [child for child in parent if child.tag.endswith(("}metadata", "}style"))]:
            parent.remove(child)
    text = ElementTree.tostring(root, encoding="unicode")
    used = {*re.findall(r"(?:url\(|\")#([\w.-]+)", text), *plot.tooltips}
    for element in root.iter():
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        element.attrib = {key: _on_page(key, value, plot.name)
                          for key, value in attributes.items()
                          if key != "id" or value in used or not _OWN_ID.fullmatch(value)}
        if element.tag not in {"text", "title"}:
            element.text = None
        element.tail = None
    _hoist(root)
    # Rules of the style element, which would have applied to the whole page.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt", "role": "img",
                    "aria-label": plot.caption}
    for element in list(root.iter()):
        tooltip = plot.tooltips.get(element.get("id", "").removeprefix(f"{plot.name}-"))
        if tooltip is not None:
            title = ElementTree.Element("title")
            title.text = tooltip
            element.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode")


def _hoist(element: ElementTree.Element) -> None:
    """Replace groups that say nothing by what is in them, and drop empty ones."""
    children: list[ElementTree.Element] = []
    for child in element:
        _hoist(child)
        if child.tag in {"g", "defs"} and not len(child):
            continue
        children += [*child] if child.tag == "g" and not child.attrib else [child]
    element[:] = children


def _on_page(key: str, value: str, prefix: str) -> str:
    """Spell an attribute shorter, its colours as variables, and ids with the plot's name."""
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    if key in {"clip-path", "mask", "fill"}:
        return value.replace("url(#", f"url(#{prefix}-")
    if key == "style":
        value = re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), value)
        value = re.sub(r"(font: [^;']*px) [^;]*", r"\1 system-ui,sans-serif", value)
        return value.replace(": ", ":").replace("; ", ";")
    if key in {"d", "points", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform"}:
        return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"),
                                " ".join(value.split()))
    return value
