"""Pages of reports: HTML templates of this room, whose values are escaped, and images in them.

Images take the page's theme: their colours are variables of its style.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.io.output import new_file
from bmtools.study.reports.drawing import COLOURS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from bmtools.translation.projection.review import ReviewItem

_VARIABLES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
# The style element would apply to the whole page.
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)
# These characters could end a script element or be read as markup; JSON may escape them.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_ROOT = '<svg role="img" stroke-linejoin="round" stroke-linecap="butt" aria-label="{}" '


def page_templates() -> Environment:
    """Return the templates; a missing value of a page is an error."""
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


def write_review_page(items: Sequence[ReviewItem], path: Path, source_lang: str = "",
                      target_lang: str = "") -> None:
    """Write the page of some items; the same items, same bytes.

    Args:
        items: as from `review_items`.
        path: file to write.
        source_lang: ISO 639-1, for hyphens and voices of the browser; empty where unknown.
        target_lang: likewise.
    """
    with new_file(path) as stream:
        stream.write(render_review_page(items, source_lang, target_lang).encode("utf-8"))


def render_review_page(items: Sequence[ReviewItem], source_lang: str = "",
                       target_lang: str = "") -> str:
    """Render the page; see `write_review_page`."""
    from markupsafe import Markup

    data = {"items": items, "languages": [source_lang, target_lang]}
    # Lone surrogates, which JSON may hold, have no UTF-8: everything is ASCII.
    embedded = json.dumps(data).translate(_ESCAPED)
    return page_templates().get_template("review_page.html").render(
        count=len(items), data=Markup(embedded))
