"""Report of score-mrr: plots of ranks over models, and a page that contains them."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bmtools.errors import setting
from bmtools.io.atomic import new_directory
from bmtools.reports.drawing import (
    FAINT,
    INK,
    ImageFormat,
    Plot,
    drawing_style,
    require_matplotlib,
)
from bmtools.reports.mrr_collector import MrrItem
from bmtools.reports.mrr_flow import plot_flow
from bmtools.reports.mrr_page import render_page
from bmtools.reports.mrr_plots import plot_domains, plot_progression, plot_proposals
from bmtools.reports.mrr_summary import MrrSummary

# Words of an SVG stay words: to be searched, read aloud, and drawn by the reader's own fonts where
# a script needs others.
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT,
    "xtick.color": INK, "ytick.color": INK, "figure.facecolor": "white",
    "savefig.facecolor": "white", "figure.dpi": 100, "path.simplify": False}


def write_mrr_report(items: Sequence[MrrItem], models: Sequence[str],
                     lines: Sequence[Mapping[str, Any]], directory: Path,
                     image_format: ImageFormat = "svg", top: int = 5,
                     sentence: str | None = None, overwrite: bool = False) -> list[Path]:
    """Write plots of ranks over models, and a page with them; the same input, same bytes.

    Args:
        items: each under all models; at least one.
        models: names or paths, in the order to draw.
        lines: scores as the command prints them; what they lack is left out or counted here.
        directory: to make, with its parents.
        image_format: svg or png. In png, letters that the fonts lack show as boxes.
        top: last rank that counts.
        sentence: id of the item whose proposals to show; None chooses one.
        overwrite: replace a directory that is not empty.

    Returns:
        the files: plots, then the page.

    Raises:
        BmtoolsError: matplotlib is missing, the directory is not empty, there are no items, or
            none has the id.
        ValueError: an unknown format.
    """
    require_matplotlib()
    if image_format not in typing.get_args(ImageFormat):
        raise ValueError(f"{setting('plot_format')}: found {image_format}, expected "
                         f"{' or '.join(typing.get_args(ImageFormat))}")
    summary = MrrSummary.of(items, models, lines, top, sentence)
    with new_directory(directory, overwrite) as partial, _mrr_style():
        plots = list(_plots(summary, image_format))
        for plot in plots:
            (partial / plot.file).write_bytes(plot.image)
        page = render_page(summary, plots)
        (partial / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return [directory / name for name in [*(plot.file for plot in plots), "index.html"]]


@contextmanager
def _mrr_style() -> Iterator[None]:
    with drawing_style(**_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        yield


def _plots(summary: MrrSummary, image_format: ImageFormat) -> Iterator[Plot]:
    yield plot_progression(summary, image_format)
    for before in range(len(summary.names) - 1):
        yield plot_flow(summary, before, image_format)
    yield plot_proposals(summary, image_format)
    if "domain" in summary.groups:
        yield plot_domains(summary, image_format)
