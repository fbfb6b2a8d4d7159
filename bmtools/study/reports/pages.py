"""Pages of reports: the HTML templates of this room and the images inside pages.

Templates escape all values. Colours of images are CSS variables, so that they follow the theme.
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
# An SVG's style element would apply to the whole page.
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.S)
# These characters could end a script element or be parsed as markup, so JSON escapes them.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_ROOT = '<svg role="img" stroke-linejoin="round" stroke-linecap="butt" aria-label="{}" '


def page_templates() -> Environment:
    """Return the environment of the templates. A value missing in a page raises an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools.study", "reports"), autoescape=True,
                              trim_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.globals["colours"] = COLOURS
    return environment


def inline_svg(image: bytes, name: str, caption: str) -> Markup:
    """Turn an SVG file into an element of a page, and prefix its ids with a unique name."""
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
    """Write the page on which a person reviews items. The same items always produce the same bytes.

    Args:
        items: items from `review_items`.
        path: file to write.
        source_lang: ISO 639-1 code, for hyphenation and speech in the browser; empty if unknown.
        target_lang: code of the other language.
    """
    with new_file(path) as stream:
        stream.write(render_review_page(items, source_lang, target_lang).encode("utf-8"))


def render_review_page(items: Sequence[ReviewItem], source_lang: str = "",
                       target_lang: str = "") -> str:
    """Return the page as HTML, see `write_review_page`."""
    from markupsafe import Markup

    data = {"items": items, "languages": [source_lang, target_lang]}
    # Lone surrogates, which JSON allows, have no UTF-8 encoding, so all characters are ASCII.
    embedded = json.dumps(data).translate(_ESCAPED)
    return page_templates().get_template("review_page.html").render(
        count=len(items), data=Markup(embedded))
