"""Licences by one name each, as SPDX spells them: `CC-BY-4.0`, `CC-BY-NC`, `Apache-2.0`."""

from __future__ import annotations

import re

PUBLIC_DOMAIN = "public-domain"
_URL = re.compile(r"creativecommons\.org/licen[sc]es/(by(?:-(?:nc|nd|sa))*)(?:/(\d\.\d))?")
_DEDICATION = re.compile(r"creativecommons\.org/(?:licen[sc]es/)?(?:publicdomain/(zero|mark)|"
                         r"publicdomain)")
_SHORT = re.compile(r"\bcc[\s_-]?(by(?:[\s_-]?(?:nc|nd|sa))*)\b(?:[\s_-]*v?(\d\.\d))?")
_LONG = re.compile(
    r"creative commons,? attribution((?:[\s,-]*(?:and )?(?:non[\s-]?commercial|"
    r"no[\s-]?deriv(?:ative)?s?(?: works?)?|share[\s-]?alike))*)"
    r"(?:(?: \d\.\d)?(?: (?:unported|international|generic|license|licence|\(cc[^)]*\)))*)"
    r"(?:,? (?:version )?v?(\d\.\d))?")
_PARTS = (("NC", "commercial"), ("SA", "alike"), ("ND", "deriv"))
_VERSION = re.compile(r"\d\.\d")
_ZERO = re.compile(r"\bcc[\s_-]?0\b|creative commons (?:cc0|zero)")
_SPDX = {name.lower(): name for name in (
    "AFL", "AGPL", "Apache", "BSD", "CDLA-Permissive", "ECL", "etalab", "EUPL", "GFDL", "GPL",
    "ISC", "LGPL", "MIT", "MPL", "ODbL", "ODC-By", "PDDL", "Unlicense", "WTFPL", "Zlib")}
_FILLING = re.compile(r"\b(?:the|gnu|software|licen[cs]e|version)\b|\bv(?=\d)")
_VERSIONED = re.compile(r"(?P<family>[a-z-]+?)v?(?:-?(?P<version>\d(?:\.\d)?))?"
                        r"(?P<later>-?only|-?or-later|\+)?(?P<clause>-clause)?")


def normal_name(stated: str) -> str:
    """Return the name of one licence by SPDX, or as it is stated where it has none."""
    plain = re.sub(r"[\s,_-]+", "-", _FILLING.sub(" ", stated.lower())).strip("-")
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
    return [normal_name(part) for part in licence.split(" AND ") if part.strip()]


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
    if found := _DEDICATION.search(statement):
        return {"zero": "CC0-1.0", "mark": "CC-PDM-1.0"}.get(found[1], PUBLIC_DOMAIN)
    if _ZERO.search(statement):
        return "CC0-1.0"
    if found := _SHORT.search(statement):
        return _joined(re.sub(r"[\s_-]?(nc|nd|sa)", r"-\1", found[1]), found[2])
    if found := _LONG.search(statement):
        parts = [short for short, word in _PARTS if word in found[1]]
        version = _VERSION.search(found[0])
        return _joined("-".join(["by", *parts]), version and version[0])
    return PUBLIC_DOMAIN if "public domain" in statement else ""


def _joined(parts: str, version: str | None) -> str:
    return f"CC-{parts.upper()}" + (f"-{version}" if version else "")
