"""One name for each licence, in the spelling of SPDX: `CC-BY-4.0`, `CC-BY-NC`, `Apache-2.0`."""

from __future__ import annotations

import re
from functools import lru_cache

PUBLIC_DOMAIN = "public-domain"
_URL = re.compile(r"creativecommons\.org/licen[sc]es/(by(?:-(?:nc|nd|sa))*)(?:/(\d\.\d))?")
_DEDICATION = re.compile(r"creativecommons\.org/(?:licen[sc]es/)?(?:publicdomain/(zero|mark)|"
                         r"publicdomain)")
_SHORT = re.compile(r"\bcc[\s_-]?(by(?:[\s_-]?(?:nc|nd|sa))*)(?![a-z])"
                    r"(?:[\s_-]*(?:v\.?\s*)?(\d(?:\.\d)?)(?!\d))?")
_LONG = re.compile(
    r"creative commons,? attribution((?:[\s,-]*(?:and )?(?:non[\s-]?commercial|"
    r"no[\s-]?deriv(?:ative)?s?(?: works?)?|share[\s-]?alike))*)"
    r"(?:(?: \d\.\d)?(?: (?:unported|international|generic|license|licence|\(cc[^)]*\)))*)"
    r"(?:,? (?:version )?v?(\d\.\d))?")
_PARTS = (("nc", "commercial"), ("sa", "alike"), ("nd", "deriv"))
_ELEMENTS = ("NC", "SA", "ND")  # in SPDX's order
_VERSION = re.compile(r"\d\.\d")
_ZERO = re.compile(r"\bcc[\s_-]?0\b|creative commons (?:cc0|zero)")
FREE = {"CC0", "CC-PDM", PUBLIC_DOMAIN, "PDDL", "Unlicense", "WTFPL"}
NOTICE = {"AFL", "Apache", "BSD", "CDLA-Permissive", "ECL", "etalab", "ISC", "MIT", "ODC-By",
          "Zlib"}
COPYLEFT = {"AGPL", "CDDL", "CDLA-Sharing", "CPL", "EPL", "EUPL", "GFDL", "GPL", "LGPL", "MPL",
            "ODbL", "OSL"}
"""Families of licences by their condition: none, a notice, the same licence."""
_FAMILIES = {name.lower(): name for name in FREE | NOTICE | COPYLEFT}
_CC = re.compile(r"\b(?:cc\b|cc[\s_-]?(?:by|0)|creative commons|public domain)")
_NOT = re.compile(rf"\b(?:not|never|nor|neither|no longer)(?: [\w-]+){{0,4}}? {_CC.pattern}[^,.;]*")
_ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?creativecommons\.org/\S*")
_PORT = re.compile(r"(?<=\d)\s+(?:igo|[a-z]{2})$")
# Words that may surround the names in a statement and do not change the meaning.
_OTHER_WORD = re.compile(
    r"\b(?:an?|and|are|article|available|cc|commons|corpus|creative|dataset|dedication|distributed|"
    r"domain|generic|in|international|is|licen[cs]ed?|licen[cs]es|made|mark|model|of|open access|"
    r"or|public|released|terms|the|this|under|universal|unported|v|version|work)\b")
_SEPARATOR = re.compile(r" ?[,;](?! ?version) ?(?:and )?| and ", re.IGNORECASE)
_LONGEST_SPDX = 200  # characters
_GNU = re.compile(r"\b(?:(affero|lesser) )?general public\b")
_FILLING = re.compile(r"\b(?:the|gnu|software|licen[cs]e|version)\b|\bv(?=\d)")
_VERSIONED = re.compile(r"(?P<family>[a-z-]+?)v?(?:-?(?P<version>\d(?:\.\d)?))?"
                        r"(?P<later>-?only|-?or-later|\+)?(?P<clause>-clause)?")


@lru_cache(maxsize=256)
def normal_name(stated: str) -> str:
    """Return a licence's SPDX name, several names joined by AND, or the statement itself.

    A statement with more content than names, such as `Proprietary. Figures are CC BY 4.0`, is kept.
    """
    stated = " ".join(stated.split())
    names = [_only_name(stated)] if _only_name(stated) else [
        _only_name(part) for part in _SEPARATOR.split(stated)]
    return " AND ".join(dict.fromkeys(names)) if all(names) else stated


def _only_name(stated: str) -> str:
    """Return the names if a statement consists only of licences, or an empty string."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    rest = stated.lower()
    short = re.sub(r"[\s,_-]+", "-", _FILLING.sub(" ", _GNU.sub(
        lambda found: f"{(found[1] or '')[:1]}gpl", rest))).strip("-")
    found = _VERSIONED.fullmatch(short)
    if found and (family := _FAMILIES.get(found["family"])):
        version = found["version"] or ""
        if found["clause"]:
            return f"{family}-{version}-Clause"
        later = {"+": "or-later"}.get(found["later"], (found["later"] or "").strip("-"))
        return "-".join(filter(None, [
            family, version and f"{version}{'' if '.' in version else '.0'}", later]))
    for pattern in (_ADDRESS, _PORT, _LONG, _SHORT, _ZERO, _OTHER_WORD):
        rest = pattern.sub(" ", rest)
    if (name := licence_name(stated)) and not re.search(r"[^\W\d_]", rest):
        return name
    try:
        return canonicalize_license_expression(stated) if len(stated) < _LONGEST_SPDX else ""
    except InvalidLicenseExpression:
        return ""


def licence_parts(licence: str) -> list[str]:
    """Return the normal names of licences that all apply, such as `A AND B`."""
    return [name for part in licence.split(" AND ") if part.strip()
            for name in normal_name(part).split(" AND ")]


def licence_name(*stated: str) -> str:
    """Return the name of the licence in statements: addresses or texts, the most precise first.

    A statement may contain more than the name. Names in a negation are ignored.

    Returns:
        the SPDX name, without a version if no version is stated; `public-domain`; or an empty
        string if no statement names a Creative Commons licence.
    """
    for statement in stated:
        if name := _name(_NOT.sub("", " ".join(statement.lower().split()))):
            return name
    return ""


def _name(statement: str) -> str:
    if found := _URL.search(statement):
        return _joined(found[1], found[2])
    # Several licences apply together, unless the statement offers a choice.
    names = list(dict.fromkeys(_joined(*found) for found in _SHORT.findall(statement)))
    names = [name for name in names if not any(
        _VERSION.fullmatch(other.removeprefix(f"{name}-")) for other in names)]
    if names:
        return names[0] if " or " in statement else " AND ".join(names)
    if found := _LONG.search(statement):
        parts = [short for short, word in _PARTS if word in found[1]]
        version = _VERSION.search(found[0])
        return _joined("-".join(["by", *parts]), version and version[0])
    # Checked last, because texts may add that an article's data are in the public domain.
    if found := _DEDICATION.search(statement):
        return {"zero": "CC0-1.0", "mark": "CC-PDM-1.0"}.get(found[1], PUBLIC_DOMAIN)
    if _ZERO.search(statement):
        return "CC0-1.0"
    return PUBLIC_DOMAIN if "public domain" in statement else ""


def _joined(elements: str, version: str | None) -> str:
    parts = ["BY", *(part for part in _ELEMENTS if part.lower() in elements)]
    if version and "." not in version:
        version += ".0"
    return "-".join(filter(None, ["CC", *parts, version]))
