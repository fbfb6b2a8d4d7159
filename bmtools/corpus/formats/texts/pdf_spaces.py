"""Widths of blanks in fonts of PDF that have none, as TeX's: words are moved apart instead."""

from __future__ import annotations

import re
from typing import Any

BLANK = 250
"""Width of a blank in thousandths of the size of a font, where it has none."""
_BLANK_CODE = 32
_TO_BLANK = re.compile(rb"<\w+>[ \t]*<0020>[ \t]*[\r\n]")  # in a table of characters


def mend_blanks(resources: Any, seen: set[int]) -> None:
    """Remove the width that such fonts give code 32, which is that of some other character.

    pypdf takes it for that of a blank, and runs words together that are less far apart than half
    of it (pypdf 7.1; most words of texts set by XeLaTeX).

    Args:
        resources: of a page or a form, which may hold further forms.
        seen: identities of what was looked at before.
    """
    waiting = [resources]
    while waiting:
        found = _resolved(waiting.pop())
        if not isinstance(found, dict) or id(found) in seen:
            continue
        seen.add(id(found))
        for font in _values(found, "/Font"):
            if id(font) not in seen:
                seen.add(id(font))
                _mend_font(font)
        waiting += [form.get("/Resources") for form in _values(found, "/XObject")]


def _values(resources: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = _resolved(resources.get(key))
    values = map(_resolved, found.values()) if isinstance(found, dict) else ()
    return [value for value in values if isinstance(value, dict)]


def _resolved(value: Any) -> Any:
    return value.get_object() if hasattr(value, "get_object") else value


def _mend_font(font: dict[str, Any]) -> None:
    from pypdf.generic import ArrayObject, NameObject, NumberObject

    descendants, encoding, widths, first = (_resolved(font.get(key)) for key in (
        "/DescendantFonts", "/Encoding", "/Widths", "/FirstChar"))
    zero, code = NumberObject(0), NumberObject(_BLANK_CODE)
    if isinstance(descendants, list) and descendants:
        table, inner = _resolved(font.get("/ToUnicode")), _resolved(descendants[0])
        if hasattr(table, "get_data") and isinstance(inner, dict) \
                and not _TO_BLANK.search(table.get_data()):
            old = _resolved(inner.get("/W"))
            new = [*(old if isinstance(old, list) else ()), code, code, zero]
            inner[NameObject("/W")] = ArrayObject(new)
    elif isinstance(encoding, dict) and isinstance(widths, list) and isinstance(first, int):
        differences = _resolved(encoding.get("/Differences"))
        has_blank = "/BaseEncoding" in encoding or not isinstance(differences, list) \
            or "/space" in differences
        if not has_blank and first <= _BLANK_CODE < first + len(widths):
            place = _BLANK_CODE - first
            font[NameObject("/Widths")] = ArrayObject([*widths[:place], zero, *widths[place + 1:]])
