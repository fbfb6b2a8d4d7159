"""Report of score-mrr: plots of ranks over models, and a page that contains them.

The page is one HTML file without scripts or links to a network.
"""

from __future__ import annotations

import base64
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from xml.etree import ElementTree

from bmtools.errors import require
from bmtools.io.directories import new_directory
from bmtools.records import MASK
from bmtools.reports.drawing import (
    FAINT,
    INK,
    PNG_DPI,
    ImageFormat,
    Plot,
    drawing_style,
    require_matplotlib,
)
from bmtools.reports.labels import DASH, excerpt, ordinal, percent, printable
from bmtools.reports.mrr_plots import plot_domains, plot_flow, plot_progression, plot_proposals
from bmtools.reports.mrr_summary import MrrItem, MrrSummary, matching_proposal, sort_by_agreement
from bmtools.reports.pages import page_templates

if TYPE_CHECKING:
    from markupsafe import Markup

_TEMPLATE = "mrr_page.html"
_MAX_ROWS = 1000
_CONTEXT_CHARACTERS = 60
_PAGE_DPI = 96  # CSS pixels
_COLUMNS = (("hits at 1", "hits_at_1"), ("hits at 5", "hits_at_5"), ("maskings", "maskings"),
            ("several tokens", "multi_token"), ("unknown", "unknown"))

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
        lines: scores as the command prints them; missing numbers are left out or counted here.
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
    formats = get_args(ImageFormat)
    require(image_format in formats, "plot_format", image_format, " or ".join(formats))
    summary = MrrSummary.of(items, models, lines, top, sentence)
    with new_directory(directory, overwrite) as partial, drawing_style(**_STYLE), \
            warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        plots = [plot_progression(summary, image_format),
                 *(plot_flow(summary, before, image_format) for before in range(len(models) - 1)),
                 plot_proposals(summary, image_format)]
        if "domain" in summary.groups:
            plots.append(plot_domains(summary, image_format))
        for plot in plots:
            (partial / plot.file).write_bytes(plot.image)
        page = render_page(summary, plots)
        (partial / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return [directory / name for name in [*(plot.file for plot in plots), "index.html"]]


def render_page(summary: MrrSummary, plots: Sequence[Plot]) -> str:
    """Render the whole page.

    Args:
        summary: numbers and words.
        plots: images to embed; proposals are a table on the page.
    """
    environment = page_templates()
    environment.filters |= {
        "printable": printable, "ordinal": ordinal, "percent": percent, "figure": _figure,
        "image": _image, "excerpt": lambda text: excerpt(text, MASK, _CONTEXT_CHARACTERS)}
    shown, parts = summary.shown, sort_by_agreement(summary.items)
    changing = sorted(parts.changing,
                      key=lambda item: item.reciprocal_ranks[0] - item.reciprocal_ranks[-1])
    return environment.get_template(_TEMPLATE).render(
        summary=summary, plots={plot.name: plot for plot in plots},
        columns=[_breakable(name) for name in summary.names],
        score_columns=[(head, key) for head, key in _COLUMNS
                       if any(key in line for line in summary.lines)],
        proposal_rows=min(summary.top, max(map(len, shown.proposals), default=0)),
        matches=[matching_proposal(shown, model) for model in range(len(summary.models))],
        item_lists=[
            ("Changing between models", changing, "the greatest gains first"),
            ("Always found, at one rank", parts.steady, ""),
            ("Never found", parts.never, f"not among the first {summary.top} under any model")],
        signatures=[(model, line["signature"]) for model, line in
                    zip(summary.models, summary.lines, strict=True) if "signature" in line],
        mask=MASK, dash=DASH, max_rows=_MAX_ROWS)


def _breakable(name: str) -> Markup:
    """Allow line breaks after the separators of a path."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_.\-])", r"\1<wbr>", str(escape(name))))


def _figure(value: Any) -> str:
    """Spell a number or word of a line; a dash where it is missing."""
    if value is None:
        return DASH
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))


def _image(plot: Plot) -> Markup:
    """Embed an image: an svg as an element, a png as data."""
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
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        element.attrib = {key: _prefixed(key, value, plot.name)
                          for key, value in attributes.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in {"metadata", "style"}]:
            parent.remove(child)
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


def _prefixed(key: str, value: str, prefix: str) -> str:
    """Prefix ids, and references to ids, with the plot's name."""
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    return value.replace("url(#", f"url(#{prefix}-") if key in {"clip-path", "mask", "fill"} \
        else value
