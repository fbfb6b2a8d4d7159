"""Page on which a person corrects projected spans: one HTML file, without a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.io.output import new_file
from bmtools.study.reports.pages import page_templates

if TYPE_CHECKING:
    from bmtools.translation.projection.review import ReviewItem

# Within a script element these could end it, or be read as markup; JSON may escape them.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


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
