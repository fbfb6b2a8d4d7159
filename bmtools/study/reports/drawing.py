"""Drawing with matplotlib, without a display. The same numbers always produce the same bytes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# Colours in light and dark mode. The first ones are safe for colour-blind readers (Okabe and Ito).
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
    "ramp-6": ("#a07800", "#f0d24a"), "good": ("#00714f", "#2fc796"),
    "warn": ("#a84600", "#ff8c42"), "soft": ("#f4f6f8", "#1c2229")}
INK, FAINT, PAPER, LINE, MARK, PALE, STRONG, WORSE, BETTER, *_MORE = (
    light for light, _ in COLOURS.values())
SERIES = (STRONG, WORSE, BETTER, *_MORE[:4])
SAME, RAMP = SERIES[-1], tuple(_MORE[5:-3])
PAGE_DPI = 96  # CSS pixels
_DPI = {"png": 150}
_FONT_SIZE = 11.6 * 72 / PAGE_DPI
# Names are never parsed as formulas. An SVG keeps its words as text, so that they can be searched
# and read aloud, and the browser can choose a font for scripts that this font does not contain.
_STYLE: dict[RcKeyType, object] = {
    "text.parse_math": False, "svg.hashsalt": "bmtools", "svg.fonttype": "none",
    "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"], "text.color": INK,
    "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": FAINT, "ytick.color": FAINT,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "figure.facecolor": PAPER,
    "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "path.simplify": False,
    "font.size": _FONT_SIZE, "axes.labelsize": _FONT_SIZE, "xtick.labelsize": _FONT_SIZE,
    "ytick.labelsize": _FONT_SIZE, "legend.fontsize": _FONT_SIZE, "legend.frameon": False,
    "figure.titlesize": _FONT_SIZE, "legend.handlelength": 1.2, "legend.borderpad": 0,
    "xtick.major.size": 0, "xtick.minor.size": 0, "ytick.major.size": 0, "ytick.minor.size": 0,
    "axes.spines.top": False, "axes.axisbelow": True, "axes.spines.right": False,
    "axes.spines.left": False, "axes.grid": True, "grid.color": LINE, "grid.linewidth": 0.7,
    "lines.markersize": 4}
_NO_DATE: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": {}}


@contextmanager
def written_figure(stream: BinaryIO, file_format: str, width: float,
                   height: float) -> Iterator[Figure]:
    """Yield an empty figure of a size in CSS pixels, then write it as svg, pdf or png."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        figure = Figure(figsize=(width / PAGE_DPI, height / PAGE_DPI), layout="constrained")
        yield figure
        figure.savefig(stream, format=file_format, dpi=_DPI.get(file_format, 72),
                       metadata=_NO_DATE[file_format])
