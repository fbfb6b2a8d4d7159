"""Licences by one name each, as SPDX spells them: `CC-BY-4.0`, `CC-BY-NC`, `Apache-2.0`."""

from __future__ import annotations

import re

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
_ELEMENTS = ("NC", "SA", "ND")  # in the order of SPDX
_VERSION = re.compile(r"\d\.\d")
_ZERO = re.compile(r"\bcc[\s_-]?0\b|creative commons (?:cc0|zero)")
_SPDX = {name.lower(): name for name in (
    "AFL", "AGPL", "Apache", "BSD", "CDLA-Permissive", "ECL", "etalab", "EUPL", "GFDL", "GPL",
    "ISC", "LGPL", "MIT", "MPL", "ODbL", "ODC-By", "PDDL", "Unlicense", "WTFPL", "Zlib")}
_GNU = re.compile(r"\b(?:(affero|lesser) )?general public\b")
_FILLING = re.compile(r"\b(?:the|gnu|software|licen[cs]e|version)\b|\bv(?=\d)")
_VERSIONED = re.compile(r"(?P<family>[a-z-]+?)v?(?:-?(?P<version>\d(?:\.\d)?))?"
                        r"(?P<later>-?only|-?or-later|\+)?(?P<clause>-clause)?")


def normal_name(stated: str) -> str:
    """Return the name of one licence by SPDX, or as it is stated where it has none."""
    short = _GNU.sub(lambda found: f"{(found[1] or '')[:1]}gpl", " ".join(stated.lower().split()))
    plain = re.sub(r"[\s,_-]+", "-", _FILLING.sub(" ", short)).strip("-")
    found = _VERSIONED.fullmatch(plain)
    if found is None or not (family := _SPDX.get(found["family"])):
        return licence_name(stated) or " ".join(stated.split())
    version = found["version"] or ""
    if found["clause"]:
        return f"{family}-{version}-Clause"
    later = {"+": "-or-later"}.get(found["later"], found["later"] or "")
    return "-".join(filter(None, [family, version and f"{version}{'' if '.' in version else '.0'}",
                                  later.strip("-")]))


def licence_parts(licence: str) -> list[str]:
    """Return the normal names of the licences that hold together, as `A AND B`."""
    return [name for part in licence.split(" AND ") if part.strip()
            for name in normal_name(part).split(" AND ")]


def licence_name(*stated: str) -> str:
    """Return the name of a licence from what states it, most precise first: addresses, texts.

    Returns:
        its name by SPDX, without a version where none is stated; `public-domain`; or empty where
        the statements name none of Creative Commons.
    """
    for statement in stated:
        if name := _name(" ".join(statement.lower().split())):
            return name
    return ""


def _name(statement: str) -> str:
    if found := _URL.search(statement):
        return _joined(found[1], found[2])
    # Several that are named hold together, unless one may be chosen.
    names = list(dict.fromkeys(_joined(*found) for found in _SHORT.findall(statement)))
    names = [name for name in names if not any(
        _VERSION.fullmatch(other.removeprefix(f"{name}-")) for other in names)]
    if names:
        return names[0] if " or " in statement else " AND ".join(names)
    if found := _LONG.search(statement):
        parts = [short for short, word in _PARTS if word in found[1]]
        version = _VERSION.search(found[0])
        return _joined("-".join(["by", *parts]), version and version[0])
    # Last, for texts may add that the data of an article are dedicated.
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
