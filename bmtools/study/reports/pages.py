"""Pages of reports: HTML templates of this room, whose values are escaped, and images in them.

Images take the page's theme: their colours are variables of its style.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from bmtools.study.reports.drawing import COLOURS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_VARIABLES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
# The style element would apply to the whole page.
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)
_ROOT = '<svg role="img" stroke-linejoin="round" stroke-linecap="butt" aria-label="{}" '


def page_templates() -> Environment:
    """Return the templates; a value that a page lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools.study", "reports"), autoescape=True,
                              trim_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.globals["colours"] = COLOURS
    return environment


def inline_svg(image: bytes, name: str, caption: str) -> Markup:
    """Turn an SVG file into an element of a page, with ids that begin with a unique name."""
    from markupsafe import Markup

    def shortened(tag: re.Match[str]) -> str:
        found = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", tag[0])
        found = re.sub(r"#[0-9a-f]{6}", lambda colour: _VARIABLES.get(colour[0], colour[0]), found)
        found = re.sub(r"(font: [^;']*px) [^;\"]*", r"\1 system-ui,sans-serif", found)
        found = re.sub(r"-?\d+\.\d{2,}",
                       lambda one: f"{float(one[0]):.1f}".removesuffix(".0"), found)
        return " ".join(found.split()).replace("xlink:href", "href")

    text = image.decode()
    text = re.sub(r"<[^>]+>", shortened, _DROPPED.sub("", text[text.index("<svg"):]))
    text = re.sub(r">\s+<", "><", text)
    return Markup(text.replace("<svg ", _ROOT.format(escape(caption)), 1))
