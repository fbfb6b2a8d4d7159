"""Page of scores, plots and words: one HTML file without scripts or links to a network."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from bmtools.records import MASK
from bmtools.reports.drawing import PNG_DPI, Plot
from bmtools.reports.labels import DASH, excerpt, ordinal, percent, printable, rank_label
from bmtools.reports.mrr_collector import MrrItem
from bmtools.reports.mrr_summary import MrrSummary, matching_proposal, sort_by_agreement

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_TEMPLATE = "mrr_page.html"
_MAX_ROWS = 1000
_CONTEXT_CHARACTERS = 60
_PAGE_DPI = 96  # CSS pixels
_COLUMNS = (("hits at 1", "hits_at_1"), ("hits at 5", "hits_at_5"), ("maskings", "maskings"),
            ("several tokens", "multi_token"), ("unknown", "unknown"))


def render_page(summary: MrrSummary, plots: Sequence[Plot]) -> str:
    """Render the whole page.

    Args:
        summary: numbers and words.
        plots: images to embed; proposals are a table on the page.
    """
    shown = summary.shown
    return _template().render(
        summary=summary, plots={plot.name: plot for plot in plots},
        columns=[_breakable(name) for name in summary.names],
        score_columns=[(head, key) for head, key in _COLUMNS
                       if any(key in line for line in summary.lines)],
        proposal_rows=min(summary.top, max(map(len, shown.proposals), default=0)),
        matches=[matching_proposal(shown, model) for model in range(len(summary.models))],
        item_lists=_item_lists(summary),
        signatures=[(model, line["signature"]) for model, line in
                    zip(summary.models, summary.lines, strict=True) if "signature" in line],
        mask=MASK, dash=DASH, max_rows=_MAX_ROWS)


def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools", "reports"), autoescape=True,
                              trim_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.filters |= {
        "printable": printable, "ordinal": ordinal, "rank_label": rank_label, "percent": percent,
        "figure": _figure, "image": _image,
        "excerpt": lambda text: excerpt(text, MASK, _CONTEXT_CHARACTERS)}
    return environment.get_template(_TEMPLATE)


def _item_lists(summary: MrrSummary) -> list[tuple[str, list[MrrItem], str]]:
    """List items by whether the models agree, each list with its title and order."""
    parts = sort_by_agreement(summary.items)
    changing = sorted(parts.changing,
                      key=lambda item: item.reciprocal_ranks[0] - item.reciprocal_ranks[-1])
    return [("Changing between models", changing, "the greatest gains first"),
            ("Always found, at one rank", parts.steady, ""),
            ("Never found", parts.never, f"not among the first {summary.top} under any model")]


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
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _prefixed(key, value, plot.name)
                          for key, value in element.attrib.items()}
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


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _prefixed(key: str, value: str, prefix: str) -> str:
    """Prefix ids, and references to ids, with the plot's name."""
    if key == "id":
        return f"{prefix}-{value}"
    if _local(key) == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    return value.replace("url(#", f"url(#{prefix}-") if key in {"clip-path", "mask", "fill"} \
        else value
