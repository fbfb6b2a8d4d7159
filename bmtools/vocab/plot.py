"""Comparisons of vocabularies as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsError
from bmtools.io.atomic import new_file

FORMATS = (".png", ".svg", ".pdf")
_WIDTH = 0.8  # of a group of bars; the rest is the gap to the next
_DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}


def require_matplotlib() -> None:
    """Say what is missing before any work is done.

    Raises:
        BmtoolsError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise BmtoolsError(f"--plot: {error}; pip install 'bmtools[plot]'") from error


def draw_pieces(figures: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Draw pieces per word as bars, a group for each scope; needs no display.

    The same figures give the same bytes.

    Args:
        figures: pieces per word by vocabulary, then by scope.
        path: file to write, in the format that its ending names.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    scopes = list(dict.fromkeys(scope for by_scope in figures.values() for scope in by_scope))
    # Names are text, not formulas.
    with rc_context({"text.parse_math": False, "svg.hashsalt": "bmtools"}), \
            new_file(path) as stream:
        figure = Figure(figsize=(_inches(len(scopes), len(figures)), 4.5), layout="constrained")
        axes = figure.add_subplot()
        bars = [_draw_bars(axes, [by_scope.get(scope) for scope in scopes], number, len(figures))
                for number, by_scope in enumerate(figures.values())]
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(scopes)), scopes)
        axes.set_ylabel("pieces per word (1: all words whole)")
        figure.legend(bars, list(figures), loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(stream, format=path.suffix[1:].lower(), dpi=150,
                       metadata=_DATES[path.suffix.lower()])


def _inches(scopes: int, vocabularies: int) -> float:
    return max(6.0, 1 + 0.45 * scopes * (vocabularies + 1))


def _draw_bars(axes: Any, heights: Sequence[float | None], number: int, of: int) -> Any:
    """Draw one vocabulary's bars, a place for each scope, with the figures above them."""
    width = _WIDTH / of
    places = [scope + (number + 0.5) * width - _WIDTH / 2 for scope in range(len(heights))]
    bars = axes.bar(places, [height or 0 for height in heights], width)
    axes.bar_label(bars, [f"{height:.2f}" if height else "" for height in heights],
                   fontsize="x-small", padding=2)
    return bars
