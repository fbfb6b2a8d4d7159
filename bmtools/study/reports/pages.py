"""Pages of reports: HTML templates of this room, whose values are escaped, and images in them.

Images take the page's theme: their colours are variables of its style.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from bmtools.study.reports.drawing import COLOURS, PAGE_DPI, PNG_DPI, Plot

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_VARIABLES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
# Ids that matplotlib generates and nothing refers to.
_OWN_ID = re.compile(r"[A-Za-z0-9.]+_\d+")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def page_templates() -> Environment:
    """Return the templates; a value that a page lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools.study", "reports"), autoescape=True,
                              trim_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.globals["colours"] = COLOURS
    environment.filters["image"] = page_image
    return environment


def page_image(plot: Plot) -> Markup:
    """Embed an image in a page: an svg as an element, a png as data."""
    from markupsafe import Markup

    if plot.format == "svg":
        return Markup(_inline_svg(plot))
    width, height = (pixels * PAGE_DPI // PNG_DPI
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
